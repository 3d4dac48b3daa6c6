# What aish adds to a POSIX sh if there is no bash: marks and the status of a line. Prompts, history, completion and early
# keystrokes are not handled. The mark P is the prompt itself.

__aish_code=0 __aish_eval=: __aish_line=
__aish_esc=$(printf '\033') __aish_bel=$(printf '\007')

__aish_go() {
  __aish_nonce=$1 __aish_code=130
  __aish_line=$(cat "$__aish_dir/line")
  __aish_eval=$__aish_line
  printf '%s]133;C;aish=%s%s' "$__aish_esc" "$1" "$__aish_bel" >/dev/tty
}

__aish_end() {
  __aish_code=$?
}

__aish_prompt() {
  printf '%s]133;D;aish=%s%s' "$__aish_esc" "$__aish_nonce" "$__aish_bel" >/dev/tty
  printf '%s\000%s\000%s\0000\000emacs\000%s\000kept\000\000\000\000\000\000\000%s\000' "$__aish_nonce" "$__aish_code" "$PWD" "$PATH" \
    "${VISUAL:-${EDITOR-}}" >"$__aish_dir/status"
  printf '%s]133;P;aish=%s%s' "$__aish_esc" "$__aish_nonce" "$__aish_bel" >/dev/tty
}

__aish_settle() {
  PS1='$(__aish_prompt)' PS2=''
  unset ENV
}
