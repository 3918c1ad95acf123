#!/usr/bin/perl
# Writes plugins/tokenizers/bpe/nfc_tables.c: canonical combining classes and decompositions
# of the characters that Unicode 9.0 has. Why 9.0: the reference's normalizer carries
# these tables, so a mark that came later has class 0 there and later composites aren't composed.
# Needs perl 5.26 or newer (its Unicode data must be 9.0 or later; these properties are stable).
#   perl scripts/gen_nfc.pl > plugins/tokenizers/bpe/nfc_tables.c
use strict;
use warnings;
use Unicode::UCD qw(charprop prop_invmap);

my (%ccc, %decomp);
my $in9 = qr/^\p{Present_In: 9.0}$/;
for my $cp (0x80 .. 0x2FFFF) {
    next if $cp >= 0xAC00 && $cp <= 0xD7A3;    # Hangul syllables: by arithmetic
    next if $cp >= 0xD800 && $cp <= 0xDFFF;
    my $c = chr($cp);
    next unless $c =~ $in9;
    my $class = $c =~ /^\p{Ccc=0}$/ ? 0 : ccc_of($cp);
    $ccc{$cp} = $class if $class;
    next unless $c =~ /^\p{Decomposition_Type=Canonical}$/;
    my @d = map { ord } split //, charprop($cp, 'Decomposition_Mapping');
    die sprintf('%X decomposes to %d', $cp, scalar @d) if @d > 2;
    my $back = @d == 2 && $c !~ /^\p{Full_Composition_Exclusion}$/ ? 1 : 0;
    $decomp{$cp} = [$d[0], $d[1] // 0, $back];
}

my ($starts, $values);
sub ccc_of {
    my ($cp) = @_;
    ($starts, $values) = (prop_invmap('Canonical_Combining_Class'))[0, 1] unless $starts;
    my ($lo, $hi) = (0, scalar @$starts);
    while ($hi - $lo > 1) { my $m = int(($lo + $hi) / 2); if ($starts->[$m] <= $cp) { $lo = $m } else { $hi = $m } }
    my $v = $values->[$lo];
    return $v if $v =~ /^\d+$/;
    my ($n) = grep { /^\d+$/ } Unicode::UCD::prop_value_aliases('ccc', $v);
    die "ccc $v" unless defined $n;
    return $n;
}

my $line;
sub item {
    my ($s) = @_;
    if (length("$line $s,") > 100) { print "$line\n"; $line = '   ' }
    $line .= " $s,";
}
sub table {
    my ($type, $name, @items) = @_;
    print "const struct $type vl_nfc_${name}[] = {\n";
    $line = '   ';
    item($_) for @items;
    print "$line\n};\nconst size_t vl_nfc_n_$name = sizeof(vl_nfc_$name) / sizeof(vl_nfc_${name}[0]);\n";
}

print <<'H';
/* nfc_tables.c: canonical combining classes and decompositions (one step; the last member: it
 * composes back) of Unicode 9.0's characters, each table in ascending order. Data only. Hangul
 * syllables are done by arithmetic in nfc.c. Made by scripts/gen_nfc.pl: don't edit. */
#include "nfc.h"

/* clang-format off */
H
my @runs;
for my $cp (sort { $a <=> $b } keys %ccc) {
    if (@runs && $runs[-1][1] == $cp - 1 && $runs[-1][2] == $ccc{$cp}) { $runs[-1][1] = $cp }
    else { push @runs, [$cp, $cp, $ccc{$cp}] }
}
table('vl_nfc_class_range', 'classes', map { sprintf '{0x%X, 0x%X, %d}', @$_ } @runs);
print "\n";
table('vl_nfc_decomp', 'decomps', map { sprintf '{0x%X, 0x%X, 0x%X, %d}', $_, @{ $decomp{$_} } } sort { $a <=> $b } keys %decomp);
