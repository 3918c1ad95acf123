# vl_embed_kernels(OUT_SOURCE SYMBOL FILES...): writes a C file that defines `const vl_kernel_source SYMBOL[]` with the text of
# every file (kernels and the headers they include), ended by a NULL name. Run again as a script to do the writing.
if(CMAKE_SCRIPT_MODE_FILE)
    # An array of byte values: string literals would meet the compiler's limit on their length.
    set(text "/* Made from kernel sources at build time. */\n#include \"plugins/common/cuda/nvrtc.h\"\n")
    string(APPEND text "extern const vl_kernel_source ${SYMBOL}[];\n")
    set(table "")
    set(i 0)
    string(REPLACE "|" ";" FILES "${FILES}")
    foreach(file ${FILES})
        file(READ ${file} hex HEX)
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
        get_filename_component(name ${file} NAME)
        string(APPEND text "static const char source_${i}[] = {${bytes}0};\n")
        string(APPEND table "    {\"${name}\", source_${i}},\n")
        math(EXPR i "${i} + 1")
    endforeach()
    string(APPEND text "const vl_kernel_source ${SYMBOL}[] = {\n${table}    {0, 0},\n};\n")
    file(WRITE ${OUT} "${text}")
    return()
endif()

function(vl_embed_kernels out symbol)
    string(REPLACE ";" "|" files "${ARGN}")
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} "-DFILES=${files}"
                -P ${CMAKE_SOURCE_DIR}/cmake/EmbedKernels.cmake
        DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/EmbedKernels.cmake
        VERBATIM)
endfunction()
