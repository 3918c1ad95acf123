foreach(subject error buf json file hash utf8)
    vl_test(unit.${subject} test_${subject}.c LIBS vl_base LABELS unit)
endforeach()
