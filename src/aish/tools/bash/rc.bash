# What aish adds to the user's bash. Sourced before the user's rc files, so that none of their aliases is used in it.
#
# Between two commands PROMPT_COMMAND runs __aish_done, then the user's own commands, then __aish_idle, which waits on the
# pipe `ctl` until aish says go. While it waits, bash does not read the terminal: aish can restore terminal modes and take
# back early keystrokes. To run a line, aish writes it to the file `line`, says go, and types
#     __aish_go NONCE MODE; eval "$__aish_eval"; __aish_fix
# `set -x` and the user's DEBUG trap hold for the line only: they are taken away after it and given back within its eval,
# and our own commands stand in groups whose output goes to /dev/null, where traces and such a trap would write.
# So the line runs at top level as if typed, but as a whole: without the limit of 4096 bytes, and without waiting for a
# closing quote. Bash reads the typed text through readline, whose display goes to the file `err` (fd 2 is saved while
# waiting; so __aish_go prints the user's PS0, and bash's messages about jobs). Readline cannot be switched off: after a
# `set -o vi` in an eval, bash would read the rest from the terminal.
#
# Marks on the terminal are OSC 133: C (the line starts), D (it ended), P (waiting), each with a new nonce for every
# line. Their details go through the pipe `status`, which programs do not know.
# Everything is `builtin`, so that the user's functions are not used, and works under set -e, -u, -x and any IFS.

__aish_prev=0 __aish_last='' __aish_line='' __aish_eval='' __aish_mode=user __aish_seen='' __aish_rc='' __aish_ps1=''
__aish_control=unset __aish_asked_exit='' __aish_pipe=(0) __aish_out=''
__aish_kept='' __aish_changed='' __aish_shown_ps1='' __aish_venv=''
__aish_xtrace='' __aish_debug='' __aish_begun=1
__aish_count=0 __aish_had=0 __aish_job='' __aish_told='' __aish_alone=$'__aish_done\n:\n__aish_idle'

__aish_mark() {
  builtin printf '\e]133;%s;aish=%s\a' "$1" "$__aish_nonce" >/dev/tty
}

__aish_options() {
  [[ $1 != *u* ]] || builtin set -u
  [[ $1 != *x* ]] || builtin set -x
}

__aish_over() {
  __aish_told=1
  __aish_mark D 2>/dev/null
}

__aish_waits() {
  local over="\e]133;D;aish=$__aish_nonce\a"
  [[ -z $__aish_told ]] || over=''
  __aish_told=''
  builtin printf "$over"'\e]133;P;aish=%s\a' "$__aish_nonce" >/dev/tty
}

# First in PROMPT_COMMAND: the line has ended.
__aish_done() {
  { local rc=$? x=$-; builtin set +ux; } 2>/dev/null
  [[ $__aish_mode == own ]] || __aish_prev=$rc
  __aish_shown=$rc
  # If nothing runs between this and __aish_idle, one write has both marks, because every write wakes aish.
  [[ $PROMPT_COMMAND == "$__aish_alone" && $__aish_count == 0 && ${!-} == "$__aish_job" ]] || __aish_over
  __aish_options "$x"
  [[ $- == *e* ]] || return "$rc" # with set -e, returning it would end the shell
}

# Last in PROMPT_COMMAND: waits for the next line. Copies of the shell are forked here, so its variables must not hide
# the user's.
__aish_idle() {
  { local __aish_x=$- __aish_said; builtin set +ux; } 2>/dev/null
  __aish_ps1=${PS1-} PS1=''
  __aish_expand_prompt
  __aish_jobs
  { builtin jobs -p; builtin echo end; } >|"$__aish_dir/jobs.pids" 2>/dev/null || :
  { builtin declare -px; builtin echo '# end'; } >|"$__aish_dir/exports" 2>/dev/null || :
  __aish_hide
  [[ -n $__aish_out ]] || exec {__aish_out}>&2 2>"$__aish_dir/err" || __aish_out=''
  __aish_report || :
  __aish_waits 2>/dev/null || :
  while :; do
    __aish_said=''
    builtin read -r -t 86400 __aish_said <"$__aish_dir/ctl" 2>/dev/null || [[ $? -gt 128 ]] || break
    case $__aish_said in
      go*) [[ ${__aish_said:3:16} == "$__aish_seen" ]] || { __aish_load "${__aish_said:3:16}" "${__aish_said:20}"; __aish_jobs; break; } ;;
      side*) ( __aish_group=$BASHPID; builtin shopt -u expand_aliases; builtin . "$__aish_home/side.bash" "${__aish_said#side }" & ) </dev/null >/dev/null 2>&1 ;;
      state*) ( __aish_group=$BASHPID; builtin shopt -u expand_aliases; builtin . "$__aish_home/snapshot.bash" "${__aish_said#state }" & ) </dev/null >/dev/null 2>&1 ;;
    esac
  done
  __aish_options "$__aish_x"
  return 0
}

# What the user's PS1 shows now, with the status of the last line, if aish's prompt has it; and the virtual environment.
__aish_expand_prompt() {
  __aish_venv=${VIRTUAL_ENV_PROMPT:-${VIRTUAL_ENV##*/}} __aish_shown_ps1=''
  __aish_venv=${__aish_venv:-${CONDA_DEFAULT_ENV-}}
  [[ -n $__aish_wants_ps1 && ${BASH_VERSINFO[0]} -ge 5 ]] || return 0
  # `if` keeps the status for the expansion and shields it from set -e.
  if __aish_back; then __aish_shown_ps1=${__aish_ps1@P}; else __aish_shown_ps1=${__aish_ps1@P}; fi
  __aish_shown_ps1=${__aish_shown_ps1:0:8192} __aish_venv=${__aish_venv:0:256}
}

# The typed text starts with a space, which keeps it out of the history until __aish_go.
__aish_hide() {
  [[ $__aish_control == unset ]] || return 0 # interrupted while waiting: still set by us
  __aish_control=${HISTCONTROL+=$HISTCONTROL}
  HISTCONTROL=ignorespace
}

# Reports ended jobs before the prompt; bash itself reports started ones. Our `side` shell is counted as a job, too.
__aish_jobs() {
  local count='\j' each
  [[ ${BASH_VERSINFO[0]} -ge 5 ]] || return 0
  __aish_had=$__aish_count __aish_count=${count@P} # a job that has just ended does not count
  [[ $__aish_had$__aish_count != 00 || ${!-} != "$__aish_job" ]] || return 0
  __aish_job=${!-}
  builtin jobs -n >"$__aish_dir/jobs" 2>/dev/null || :
  while IFS= builtin read -r each; do
    [[ $each == *' Running '* || $each == *__aish_group=* ]] || builtin printf '%s\n' "$each" >/dev/tty
  done <"$__aish_dir/jobs"
  __aish_count=${count@P}
}

__aish_notices() {
  local each
  while IFS='' builtin read -r each; do
    [[ $each != '['[0-9]* || $each == *__aish_group=* ]] || builtin printf '%s\n' "$each" >/dev/tty
  done <"$__aish_dir/err"
}

__aish_report() {
  local editing=emacs
  case :$SHELLOPTS: in *:vi:*) editing=vi ;; esac
  builtin printf '%s\0' "$__aish_nonce" "${__aish_shown:-0}" "${PWD-}" "$__aish_count" "$editing" "${PATH-}" \
    "$__aish_kept" "$__aish_changed" "${HISTFILE-}" "${__aish_control#=}" "${HISTSIZE-}" \
    "$__aish_shown_ps1" "$__aish_venv" "${VISUAL:-${EDITOR-}}" \
    >"$__aish_dir/status" 2>/dev/null
}

# Reads the next line from its file.
__aish_load() {
  __aish_nonce=$1 __aish_mode=$2 __aish_seen=$1
  # A `read` interrupted by SIGINT leaves the rest of its buffer to the next `read`, so the line is read again.
  IFS='' builtin read -r -d '' __aish_line <"$__aish_dir/line" || :
  [[ $__aish_line == "$1:"* ]] || IFS='' builtin read -r -d '' __aish_line <"$__aish_dir/line" || :
  __aish_line=${__aish_line#"$1:"}
  __aish_eval=$__aish_line __aish_kept='' __aish_changed=''
  [[ $__aish_mode != own ]] || return 0
  if [[ $- == *H* && ( $__aish_line == *'!'* || $__aish_line == '^'* ) ]]; then __aish_expand || return 0; fi
  __aish_remember
  __aish_keep
}

# The line goes to the history list and, at once, to the history file, so that no end of the shell loses it. Bash decides
# by HISTCONTROL and HISTIGNORE; a line that is the last one of the list afterwards was kept.
__aish_remember() {
  local last=''
  case :$SHELLOPTS: in *:history:*) ;; *) return 0 ;; esac
  __aish_restore_control
  builtin history -s -- "$__aish_line" || :
  __aish_hide
  builtin history -p '!!' >|"$__aish_dir/last" 2>/dev/null || return 0
  IFS='' builtin read -r -d '' last <"$__aish_dir/last" || :
  [[ ${last%$'\n'} == "$__aish_line" ]] || return 0
  __aish_kept=kept
  builtin history -a 2>/dev/null || :
}

__aish_restore_control() {
  case $__aish_control in
    =*) HISTCONTROL=${__aish_control#=} ;;
    '') builtin unset HISTCONTROL ;;
  esac
  __aish_control=unset
}

# History expansion, which bash does only for typed lines.
__aish_expand() {
  local new
  if new=$(\builtin history -p -- "$__aish_line" 2>&1); then
    if [[ $new != "$__aish_line" ]]; then
      builtin printf '%s\n' "$new" >/dev/tty
      builtin printf '%s' "$new" >|"$__aish_dir/expanded" 2>/dev/null && __aish_changed=changed
    fi
    if [[ $__aish_line =~ [!^][^[:space:]]*:p([[:space:]]|$) ]]; then # bash only shows it
      __aish_line=$new __aish_eval=:
      __aish_remember
      return 1
    fi
    __aish_line=$new __aish_eval=$new
  else
    builtin printf '%s\n' "${new/*history: /bash: }" >/dev/tty
    __aish_eval='(exit 1)'
    return 1
  fi
}

# Notes that the line is an alias of `exit`: then the shell is to be left, and no other bash takes over.
__aish_note_exit() {
  local word=${1%%[[:space:]]*}
  [[ $word && ${BASH_VERSINFO[0]} -ge 4 ]] || return 0
  case ${BASH_ALIASES[$word]-} in
    exit* | logout*) builtin printf '%s' "$__aish_nonce" >|"$__aish_dir/exits" 2>/dev/null || : ;;
  esac
}

# Restores what the next line may use: $_ and PIPESTATUS of the last line, and the effect of a second `exit`.
__aish_keep() {
  local prefix='' each
  if [[ $__aish_line == *PIPESTATUS* && ${#__aish_pipe[@]} -gt 1 ]]; then
    for each in "${__aish_pipe[@]}"; do prefix="${prefix:+$prefix|}(exit $each)"; done
    prefix="$prefix"$'\n'
  elif [[ $__aish_line == *'$_'* || $__aish_line == *'${_'* ]]; then
    prefix='__aish_back "$__aish_last"&&: "$__aish_last"'$'\n'
  fi
  if [[ $__aish_line =~ ^[[:space:]]*(exit|logout)([[:space:]]|$) ]]; then
    [[ -z $__aish_asked_exit ]] || prefix='builtin jobs >/dev/null;' # otherwise bash would always warn about stopped jobs
    __aish_asked_exit=1
  else
    __aish_asked_exit=''
    __aish_note_exit "${__aish_line#"${__aish_line%%[![:space:]]*}"}"
  fi
  # An open here-document would swallow the last line; the empty line is for a line that ends in a backslash.
  [[ $__aish_line == *'<<'* ]] ||
    __aish_eval="$__aish_eval"$'\n\n''{ __aish_rc=$? __aish_last=$_ __aish_pipe=(${PIPESTATUS[@]}); } >/dev/null 2>&1'
  __aish_eval="$prefix$__aish_eval"
  [[ -z $__aish_xtrace$__aish_debug ]] ||
    __aish_eval="{ __aish_begun=1; $__aish_debug"$'\n'"${__aish_xtrace:+builtin set -x;} __aish_back&&:; } >/dev/null 2>&1"$'\n'"$__aish_eval"
}

__aish_go() {
  { local __aish_x=$-; builtin set +ux; } 2>/dev/null
  [[ $1 == "$__aish_seen" ]] || __aish_load "$1" "$2"
  PS1=$__aish_ps1 __aish_rc=''
  __aish_restore_control
  [[ -z $__aish_out ]] || { exec 2>&"$__aish_out" {__aish_out}>&-; __aish_out=''; }
  [[ $__aish_had == 0 ]] || __aish_notices
  [[ -z ${PS0-} || $__aish_mode == own || ${BASH_VERSINFO[0]} -lt 5 ]] || builtin printf '%s' "${PS0@P}" >/dev/tty
  __aish_mark C 2>/dev/null
  __aish_options "$__aish_x"
  return "$__aish_prev"
}

__aish_back() {
  return "$__aish_prev"
}

__aish_end() {
  __aish_rc=${__aish_rc:-$?}
}

# The DEBUG trap is in the file `trap`: functions do not see it. If the line was no bash, its eval has restored nothing.
__aish_fix() {
  { local rc=${__aish_rc:-$?} x=$-; builtin set +ux; } 2>/dev/null
  if [[ -n $__aish_begun || -z $__aish_xtrace$__aish_debug ]]; then
    __aish_xtrace='' __aish_debug=''
    [[ $x != *x* ]] || __aish_xtrace=x
    IFS='' builtin read -r -d '' __aish_debug <"$__aish_dir/trap" || :
  fi
  __aish_begun=''
  __aish_wrap
  __aish_options "${x//x/}"
  return "$rc"
}

# Keeps ours first and last in PROMPT_COMMAND, however it was changed.
__aish_wrap() {
  local each new=()
  if [[ -n ${PROMPT_COMMAND[1]+set} ]]; then
    [[ ${PROMPT_COMMAND[0]-} == __aish_done && ${PROMPT_COMMAND[${#PROMPT_COMMAND[@]} - 1]-} == __aish_idle ]] && return
    for each in "${PROMPT_COMMAND[@]}"; do
      each=${each//__aish_done/:} each=${each//__aish_idle/:}
      [[ $each == : ]] || new[${#new[@]}]=$each
    done
    PROMPT_COMMAND=(__aish_done "${new[@]}" __aish_idle)
    return 0
  fi
  [[ ${PROMPT_COMMAND-} == __aish_done$'\n'*__aish_idle ]] && return
  each=${PROMPT_COMMAND-}
  each=${each//__aish_done/:} each=${each//__aish_idle/:}
  PROMPT_COMMAND=$'__aish_done\n'"${each:-:}"$'\n__aish_idle'
}

# Before the exported variables of an earlier bash are set: those that the rc files have exported are not among them.
__aish_unset_exports() {
  local IFS=$' \t\n'
  builtin unset -v $(builtin compgen -e) || :
}

# After the rc files: readline bindings that cannot disturb the typed line, whatever ~/.inputrc has.
__aish_settle() {
  local INPUTRC=/dev/null
  builtin bind 'set enable-bracketed-paste off' 2>/dev/null
  __aish_wrap
}
