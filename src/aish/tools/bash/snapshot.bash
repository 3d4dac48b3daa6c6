# Prints the state of the waiting live bash, for a copy of it (`snapshot.py`). Argument: the number of the request.
#
# Sourced in a subshell of __aish_idle, so nothing here affects the shell itself. Every name has a record of its own, so
# one that cannot be read again does not affect the others. Records end in NUL: `pid GROUP`; `v NAME` and `f NAME` with the text that
# defines it on the lines after; `x`, `o`, `s`, `a`, `u` with the texts of `declare -F`, `shopt -p`, `set +o`, `alias -p`,
# `umask -p`; `r STATUS`; `end`.

exec 3>"$__aish_dir/state.$1"
builtin printf 'pid %s\0s\n' "$__aish_group" >&3
builtin set +o >&3
[[ $__aish_x != *u* ]] || builtin printf 'set -o nounset\n' >&3
[[ $__aish_x$__aish_xtrace != *x* ]] || builtin printf 'set -o xtrace\n' >&3
builtin trap - DEBUG ERR RETURN INT
builtin set +eTEv +o posix
__aish_restore_control
PS1=$__aish_ps1

builtin printf '\0o\n' >&3
builtin shopt -p >&3
builtin printf '\0a\n' >&3
builtin alias -p >&3
builtin printf '\0u\n' >&3
builtin umask -p >&3
builtin printf '\0x\n' >&3
builtin declare -F >&3
builtin printf '\0r %s\0' "${__aish_prev:-0}" >&3

# From a pipe, `read` needs a system call for each character; from a file it does not.
builtin compgen -v >|"$__aish_dir/names.$1"
while IFS='' builtin read -r __aish_each; do
  [[ $__aish_each != __aish_* ]] || continue
  builtin printf 'v %s\n' "$__aish_each" >&3
  builtin declare -p "$__aish_each" >&3
  builtin printf '\0' >&3
done <"$__aish_dir/names.$1"

builtin compgen -A function >|"$__aish_dir/names.$1"
while IFS='' builtin read -r __aish_each; do
  [[ $__aish_each != __aish_* ]] || continue
  builtin printf 'f %s\n' "$__aish_each" >&3
  builtin declare -f -- "$__aish_each" >&3
  builtin printf '\0' >&3
done <"$__aish_dir/names.$1"

builtin printf 'end\0' >&3
