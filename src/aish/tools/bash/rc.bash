# What aish adds to the bash of a person: sourced first, before any rc file of theirs, so that no alias of theirs gets in.
#
# Life between two commands: PROMPT_COMMAND runs __aish_done, then whatever the person has there, then __aish_idle, which
# waits on the pipe `ctl` until aish says go. As long as it waits, bash does not read the terminal: aish may put its modes
# right and take back what was typed ahead. To run a line aish writes it to the file `line`, says go, and types
#     __aish_go NONCE MODE; eval "$__aish_eval"; __aish_fix
# so that the line runs at top level, as if typed, but whole: no limit of 4096 bytes, no waiting for a closing quote.
# Bash reads that through readline, whose display goes to the file `err` (fd 2 is put aside while waiting; so __aish_go
# shows what the person has in PS0, and what bash said of jobs meanwhile). Reading without readline is not an option: a `set -o vi` in an eval would then make
# bash read the rest from the terminal.
#
# Marks on the terminal are OSC 133: C (the line starts), D (it ended), P (waiting); each with a nonce that is new for
# every line. What they mean in detail goes through the pipe `status`, which programs know nothing of.
# Everything is `builtin`, so that no function of theirs gets in; and holds under set -e, -u, -x and any IFS.

__aish_prev=0 __aish_last='' __aish_line='' __aish_eval='' __aish_mode=user __aish_seen='' __aish_rc='' __aish_ps1=''
__aish_control=unset __aish_asked_exit='' __aish_pipe=(0) __aish_out=''
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

# First in PROMPT_COMMAND: the line is over.
__aish_done() {
  { local rc=$? x=$-; builtin set +ux; } 2>/dev/null
  [[ $__aish_mode == model ]] || __aish_prev=$rc
  __aish_shown=$rc
  # With nothing between this and __aish_idle, one write does for both marks: every write wakes aish.
  [[ $PROMPT_COMMAND == "$__aish_alone" && $__aish_count == 0 && ${!-} == "$__aish_job" ]] || __aish_over
  __aish_options "$x"
  [[ $- == *e* ]] || return "$rc" # with set -e, passing it on would end the shell
}

# Last in PROMPT_COMMAND: waits for the next line. Copies of the shell are made here, so its variables must not hide
# those of the person.
__aish_idle() {
  { local __aish_x=$- __aish_said; builtin set +ux; } 2>/dev/null
  __aish_ps1=${PS1-} PS1=''
  __aish_jobs
  { builtin jobs -p; builtin echo end; } >|"$__aish_dir/jobs.pids" 2>/dev/null || :
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

# The trigger starts with a space: with this it stays out of the history, until __aish_go.
__aish_hide() {
  [[ $__aish_control == unset ]] || return 0 # interrupted while waiting: it still is ours
  __aish_control=${HISTCONTROL+=$HISTCONTROL}
  HISTCONTROL=ignorespace
}

# Jobs that ended, before the prompt and not after it; that one was started has been said by bash. Among jobs of theirs
# bash counts our `side` as one, too.
__aish_jobs() {
  local count='\j' each
  [[ ${BASH_VERSINFO[0]} -ge 5 ]] || return 0
  __aish_had=$__aish_count __aish_count=${count@P} # one that has just ended does not count
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
  builtin printf '%s\0' "$__aish_nonce" "${__aish_shown:-0}" "${PWD-}" "$__aish_count" "$editing" \
    >"$__aish_dir/status" 2>/dev/null
}

# Takes over the next line from its file.
__aish_load() {
  __aish_nonce=$1 __aish_mode=$2 __aish_seen=$1
  # A `read` of a file that SIGINT broke off leaves the rest of what it had buffered to the next one: then it takes another.
  IFS='' builtin read -r -d '' __aish_line <"$__aish_dir/line" || :
  [[ $__aish_line == "$1:"* ]] || IFS='' builtin read -r -d '' __aish_line <"$__aish_dir/line" || :
  __aish_line=${__aish_line#"$1:"}
  if [[ $__aish_mode == model ]]; then
    # `command`: with `builtin` programs do not get the variables, and without either they would last in POSIX mode.
    __aish_eval="$__aish_quiet \\command eval \"\$__aish_line\" </dev/null"
    return 0
  fi
  __aish_eval=$__aish_line
  if [[ $- == *H* && $__aish_line == *'!'* ]]; then __aish_expand || return 0; fi
  __aish_remember
  __aish_keep
}

__aish_remember() {
  case :$SHELLOPTS: in *:history:*) ;; *) return 0 ;; esac
  __aish_restore_control
  builtin history -s -- "$__aish_line" || :
  __aish_hide
}

__aish_restore_control() {
  case $__aish_control in
    =*) HISTCONTROL=${__aish_control#=} ;;
    '') builtin unset HISTCONTROL ;;
  esac
  __aish_control=unset
}

# History expansion, which bash does for typed lines only.
__aish_expand() {
  local new
  if new=$(\builtin history -p -- "$__aish_line" 2>&1); then
    [[ $new == "$__aish_line" ]] || builtin printf '%s\n' "$new" >/dev/tty
    __aish_line=$new __aish_eval=$new
  else
    builtin printf '%s\n' "${new/*history: /bash: }" >/dev/tty
    __aish_eval='(exit 1)'
    return 1
  fi
}

# What the next line may ask for: $_ and PIPESTATUS as the person left them; a second `exit` that means it.
__aish_keep() {
  local prefix='' each
  if [[ $__aish_line == *PIPESTATUS* && ${#__aish_pipe[@]} -gt 1 ]]; then
    for each in "${__aish_pipe[@]}"; do prefix="${prefix:+$prefix|}(exit $each)"; done
    prefix="$prefix"$'\n'
  elif [[ $__aish_line == *'$_'* || $__aish_line == *'${_'* ]]; then
    prefix='__aish_back "$__aish_last"&&: "$__aish_last"'$'\n'
  fi
  if [[ $__aish_line =~ ^[[:space:]]*(exit|logout)([[:space:]]|$) ]]; then
    [[ -z $__aish_asked_exit ]] || prefix='builtin jobs >/dev/null;' # bash would ask about stopped jobs for ever
    __aish_asked_exit=1
  else
    __aish_asked_exit=''
  fi
  # An open here-document would swallow the last line; the empty one is for a line that ends in a backslash.
  [[ $__aish_line == *'<<'* || ${__aish_x-} == *x* ]] || # what the options were
    __aish_eval="$__aish_eval"$'\n\n''__aish_rc=$? __aish_last=$_ __aish_pipe=(${PIPESTATUS[@]})'
  __aish_eval="$prefix$__aish_eval"
}

__aish_go() {
  { local __aish_x=$-; builtin set +ux; } 2>/dev/null
  [[ $1 == "$__aish_seen" ]] || __aish_load "$1" "$2"
  PS1=$__aish_ps1 __aish_rc=''
  __aish_restore_control
  [[ -z $__aish_out ]] || { exec 2>&"$__aish_out" {__aish_out}>&-; __aish_out=''; }
  [[ $__aish_had == 0 ]] || __aish_notices
  [[ -z ${PS0-} || $__aish_mode == model || ${BASH_VERSINFO[0]} -lt 5 ]] || builtin printf '%s' "${PS0@P}" >/dev/tty
  __aish_mark C 2>/dev/null
  __aish_options "$__aish_x"
  return "$__aish_prev"
}

__aish_back() {
  return "$__aish_prev"
}

__aish_fix() {
  { local rc=${__aish_rc:-$?} x=$-; builtin set +ux; } 2>/dev/null
  __aish_wrap
  __aish_options "$x"
  return "$rc"
}

# Ours first and last in PROMPT_COMMAND, whatever was made of it.
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

# After the rc files: bindings of readline that cannot disturb the typed line, whatever is in ~/.inputrc.
__aish_settle() {
  local INPUTRC=/dev/null
  builtin bind 'set enable-bracketed-paste off' 2>/dev/null
  __aish_wrap
}
