# The side shell: a copy of the waiting live bash that answers for it. Argument: its number.
#
# It has the user's functions, aliases, variables and directory. Changes by a completion stay in the copy. It ends when
# aish closes its pipe, and is replaced after the next line.
#
# Answers are records that end with NUL: `pid GROUP`, `words` with a line for every name, `c TEXT` for a candidate, `lines`
# with a candidate in each line, `end ID OPTIONS`.

builtin trap - DEBUG ERR RETURN INT
builtin set +euxTEv
builtin unset PROMPT_COMMAND
IFS=$' \t\n'
__aish_base=$__aish_dir/side.$1
[[ -z $__aish_out ]] || exec {__aish_out}>&-
exec 3>"$__aish_base.out"

builtin printf 'pid %s\0words\n' "$__aish_group" >&3
builtin compgen -P 'a ' -A alias >&3
builtin compgen -P 'f ' -A function >&3
builtin compgen -P 'b ' -A builtin >&3
builtin compgen -P 'k ' -A keyword >&3
builtin printf 'p %s\0end 0\0' "$PATH" >&3

# Completion functions set options of the current completion; they are recorded here.
compopt() {
  while [[ $# -gt 0 ]]; do
    case $1 in
      -o) __aish_opts="$__aish_opts $2 " ;;
      +o) __aish_opts=${__aish_opts// $2 / } ;;
      *) builtin shift; continue ;;
    esac
    builtin shift 2
  done
}

__aish_lines() {
  builtin printf 'lines\n' >&3
  builtin compgen "$@" >&3
  builtin printf '\0' >&3
}

__aish_find_spec() {
  __aish_spec=$(builtin complete -p -- "$1" 2>/dev/null || builtin complete -p -- "${1##*/}" 2>/dev/null)
  [[ -n $__aish_spec ]]
}

# Parses the output of `complete -p`.
__aish_take_spec() {
  __aish_function='' __aish_command='' __aish_actions=()
  builtin shift
  while [[ $# -gt 1 ]]; do
    case $1 in
      -o) __aish_opts="$__aish_opts $2 "; builtin shift ;;
      -F) __aish_function=$2; builtin shift ;;
      -C) __aish_command=$2; builtin shift ;;
      -[AGWPSX]) __aish_actions+=("$1" "$2"); builtin shift ;;
      -[a-z]) __aish_actions+=("$1") ;;
    esac
    builtin shift
  done
}

# The default completion loads the completion of a command at first use; bash-completion itself is loaded here if the
# user's rc file has not done so.
__aish_load_spec() {
  local default file
  default=$(builtin complete -p -D 2>/dev/null)
  if [[ -z $default ]]; then
    for file in {/usr/share,/usr/local/share,/opt/homebrew/share}/bash-completion/bash_completion /etc/bash_completion; do
      [[ -r $file ]] && { builtin . "$file"; break; }
    done
    default=$(builtin complete -p -D 2>/dev/null)
  fi
  [[ $default =~ -F[[:space:]]+([^[:space:]]+) ]] || return
  "${BASH_REMATCH[1]}" "$@"
  __aish_find_spec "$1"
}

__aish_by_spec() { # command, current word, word before it, current word without quotes
  local tries
  __aish_find_spec "$1" || __aish_load_spec "${@:1:3}" || return
  for tries in 1 2; do
    builtin eval "__aish_take_spec $__aish_spec"
    [[ -n $__aish_function ]] || break
    COMPREPLY=()
    "$__aish_function" "${@:1:3}"
    [[ $? == 124 ]] || break
    __aish_find_spec "$1" || break
  done
  [[ -z $__aish_command ]] || COMPREPLY=($("$__aish_command" "${@:1:3}"))
  [[ ${#__aish_actions[@]} == 0 ]] || __aish_lines "${__aish_actions[@]}" -- "$4"
  if [[ ${#COMPREPLY[@]} == 0 && ${#__aish_actions[@]} == 0 ]]; then
    case $__aish_opts in
      *default*) __aish_opts="$__aish_opts filenames "; __aish_lines -f -- "$4" ;;
      *dirnames*) __aish_opts="$__aish_opts filenames "; __aish_lines -d -- "$4" ;;
    esac
  fi
  [[ $__aish_opts != *plusdirs* ]] || __aish_lines -d -- "$4"
  return 0
}

__aish_answer() {
  local fields=() each plain cur
  while IFS='' builtin read -r -d '' each; do fields+=("$each"); done <"$__aish_base.in"
  COMP_CWORD=${fields[0]} COMP_LINE=${fields[1]} COMP_POINT=${fields[2]} COMP_TYPE=9 COMP_KEY=9
  plain=${fields[3]} cur=${fields[4]} COMP_WORDS=("${fields[@]:5}") COMPREPLY=() __aish_opts=''
  if [[ $COMP_CWORD == 0 && $plain != */* ]]; then
    __aish_lines -c -- "$plain"
  elif [[ $cur == '$'* && $cur != *[{/]* ]]; then
    __aish_lines -v -P '$' -- "${cur#\$}"
  elif [[ $cur == '~'* && $cur != */* ]]; then
    __aish_lines -u -P '~' -- "${cur#\~}"
  elif [[ $COMP_CWORD == 0 ]] || ! __aish_by_spec "${COMP_WORDS[0]}" "$cur" "${COMP_WORDS[COMP_CWORD - 1]}" "$plain"; then
    __aish_opts=' filenames '
    __aish_lines -f -- "$plain"
  fi
  [[ ${#COMPREPLY[@]} == 0 ]] || builtin printf 'c %s\0' "${COMPREPLY[@]}" >&3
  builtin printf 'end %s %s\0' "$1" "$__aish_opts" >&3
}

while builtin read -r __aish_id <"$__aish_base.req"; do
  __aish_answer "$__aish_id"
done
