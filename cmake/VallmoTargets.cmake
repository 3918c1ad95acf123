# Helpers that every folder uses: warnings, plugins, tests.

set(VALLMO_WARNINGS -Wall -Wextra -Wshadow -Wstrict-prototypes -Wvla -Wpointer-arith -Wformat=2
    -Wno-format-nonliteral -Wno-format-truncation -Wundef)
if(VALLMO_WERROR)
    list(APPEND VALLMO_WARNINGS -Werror)
endif()

if(VALLMO_SANITIZE)
    # GCC's flow analysis reports what the instrumentation adds.
    list(APPEND VALLMO_WARNINGS -Wno-maybe-uninitialized)
    add_compile_options($<$<COMPILE_LANGUAGE:C>:-fsanitize=address,undefined>
                        $<$<COMPILE_LANGUAGE:C>:-fno-sanitize-recover=undefined>
                        $<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer>)
    add_link_options(-fsanitize=address,undefined)
endif()

# vl_target(TARGET): include folders and warnings that every C target of ours has.
function(vl_target target)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:${VALLMO_WARNINGS}>)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE VALLMO_VERSION="${PROJECT_VERSION}")
endfunction()

# vl_plugin(NAME SOURCES... [LIBS ...]): a loadable NAME.so that exports vl_plugin_entry alone.
# It lands in build/plugins and is installed to the plugin folder.
function(vl_plugin name)
    cmake_parse_arguments(P "TEST" "" "LIBS" ${ARGN})
    add_library(plugin_${name} MODULE ${P_UNPARSED_ARGUMENTS})
    vl_target(plugin_${name})
    target_link_libraries(plugin_${name} PRIVATE ${P_LIBS})
    target_link_options(plugin_${name} PRIVATE
        -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/plugin.map -Wl,--exclude-libs,ALL)
    if(NOT VALLMO_SANITIZE)
        target_link_options(plugin_${name} PRIVATE -Wl,-z,defs)
    endif()
    set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
        LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/plugin.map)
    if(P_TEST)
        set_target_properties(plugin_${name} PROPERTIES
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/plugins)
    else()
        set_target_properties(plugin_${name} PROPERTIES
            LIBRARY_OUTPUT_DIRECTORY ${VALLMO_PLUGIN_BUILD_DIR})
        install(TARGETS plugin_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/vallmo/plugins)
    endif()
endfunction()

# vl_test(NAME SOURCES... [LIBS ...] [LABELS ...] [DEPENDS ...] [TIMEOUT s] [ARGS ...]): a cmocka
# program that is ctest NAME ("unit.buf"). It finds test data by VL_TEST_VECTORS, VL_SOURCE_DIR and
# VL_BUILD_DIR. Exit 77 is a skip: for a missing GPU or instruction set alone.
function(vl_test name)
    cmake_parse_arguments(T "" "TIMEOUT" "LIBS;LABELS;DEPENDS;ARGS" ${ARGN})
    string(REPLACE "." "_" target test_${name})
    add_executable(${target} ${T_UNPARSED_ARGUMENTS})
    vl_target(${target})
    target_link_libraries(${target} PRIVATE ${T_LIBS} PkgConfig::CMOCKA m)
    target_compile_definitions(${target} PRIVATE
        VL_TEST_VECTORS="${CMAKE_SOURCE_DIR}/tests/vectors" VL_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
        VL_BUILD_DIR="${CMAKE_BINARY_DIR}")
    if(T_DEPENDS)
        add_dependencies(${target} ${T_DEPENDS})
    endif()
    add_test(NAME ${name} COMMAND ${target} ${T_ARGS})
    if(NOT T_TIMEOUT)
        set(T_TIMEOUT 300)
    endif()
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${T_TIMEOUT}
        LABELS "${T_LABELS}")
endfunction()
