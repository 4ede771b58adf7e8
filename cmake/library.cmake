# The target vkshare::vkshare: libvkshare.so, its header, and the packages by which CMake and pkg-config find both.
# The wheel has them in the folder of the package, an install prefix where GNUInstallDirs puts them.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(version_script ${CMAKE_CURRENT_BINARY_DIR}/vkshare.map)
configure_file(native/vkshare.map.in ${version_script} @ONLY)

add_library(vkshare SHARED $<TARGET_OBJECTS:vkshare_core>)
add_library(vkshare::vkshare ALIAS vkshare)
target_link_libraries(vkshare PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
target_include_directories(vkshare INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/native>)
target_compile_features(vkshare INTERFACE c_std_11)
set_target_properties(vkshare PROPERTIES
  LINKER_LANGUAGE C
  SOVERSION ${VKSHARE_SOVERSION}
  LINK_DEPENDS ${version_script}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/lib) # where vkshare._native looks for it, from its own folder
# The library's calls of its own functions are direct. A name in the version script that does not exist is an error.
target_link_options(vkshare PRIVATE -Wl,--version-script=${version_script} -Wl,--no-undefined-version
  -Wl,-Bsymbolic-functions -Wl,-z,now -Wl,-z,relro)
if(NOT VKSHARE_SANITIZE)
  target_link_options(vkshare PRIVATE -Wl,-z,defs) # a sanitizer's runtime belongs to the program
endif()

if(VKSHARE_PYTHON)
  set(library_folder vkshare/lib)
  set(include_folder vkshare/include)
  # A wheel has no symbolic links, and no loader looks into it by itself.
  set(PKG_CONFIG_LIBS "-l:libvkshare.so.${VKSHARE_SOVERSION} -Wl,-rpath,\${libdir}")
else()
  set(library_folder ${CMAKE_INSTALL_LIBDIR})
  set(include_folder ${CMAKE_INSTALL_INCLUDEDIR})
  set(PKG_CONFIG_LIBS "-lvkshare")
endif()
set(cmake_folder ${library_folder}/cmake/vkshare)
set(pkg_config_folder ${library_folder}/pkgconfig)

# Paths from the files' own folders, because a wheel is unpacked anywhere.
file(RELATIVE_PATH PKG_CONFIG_LIBDIR /prefix/${pkg_config_folder} /prefix/${library_folder})
file(RELATIVE_PATH PKG_CONFIG_INCLUDEDIR /prefix/${pkg_config_folder} /prefix/${include_folder})
string(REGEX REPLACE "/$" "" PKG_CONFIG_LIBDIR "${PKG_CONFIG_LIBDIR}")
configure_file(cmake/vkshare.pc.in ${CMAKE_CURRENT_BINARY_DIR}/vkshare.pc @ONLY)

# Before 1.0 a minor version may change the interface.
set(package ${CMAKE_CURRENT_BINARY_DIR}/vkshareConfig.cmake)
configure_file(cmake/vkshareConfig.cmake.in ${package} @ONLY)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/vkshareConfigVersion.cmake
  VERSION ${VKSHARE_VERSION} COMPATIBILITY SameMinorVersion)
export(TARGETS vkshare NAMESPACE vkshare:: FILE ${CMAKE_CURRENT_BINARY_DIR}/vkshareTargets.cmake)

if(VKSHARE_INSTALL)
  if(VKSHARE_PYTHON)
    set(no_link NAMELINK_SKIP)
  endif()
  install(TARGETS vkshare EXPORT vkshareTargets LIBRARY DESTINATION ${library_folder} ${no_link}
    INCLUDES DESTINATION ${include_folder})
  install(FILES native/vkshare.h native/vkshare_surface.h native/vkshare_ipc.h native/vkshare_vulkan.h
    native/vkshare_present.h native/vkshare_layer.h native/vkshare.hpp DESTINATION ${include_folder})
  install(EXPORT vkshareTargets NAMESPACE vkshare:: DESTINATION ${cmake_folder})
  install(FILES ${package} ${CMAKE_CURRENT_BINARY_DIR}/vkshareConfigVersion.cmake DESTINATION ${cmake_folder})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vkshare.pc DESTINATION ${pkg_config_folder})
endif()
