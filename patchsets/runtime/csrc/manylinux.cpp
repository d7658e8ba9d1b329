// Keeps the library within manylinux_2_28 when the build machine's glibc and libstdc++ are newer.
//
// C++20's string streams live in GLIBCXX_3.4.29, and shared pointers ask glibc 2.32 whether the process has one thread.
// Both are defined here instead, hidden, so that the library asks its host for neither.
#include <sstream>

extern "C" {
extern char __libc_single_threaded __attribute__((visibility("hidden")));
char __libc_single_threaded = 0;  // "perhaps many": atomic reference counts, always right
}

template class std::basic_stringbuf<char>;
template class std::basic_istream<char>;
template class std::basic_stringstream<char>;
template class std::basic_ostringstream<char>;
