# Completions of perfuse for bash: perfuse itself is asked, with the words up to the cursor.
_perfuse() {
    local rest=${COMP_LINE:0:COMP_POINT} index word
    local -a words=() begins=() answer=()
    # The shell takes what follows = and : for a word of its own; it is one where blanks are before it.
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${rest#"${rest%%[![:space:]]*}"}
        if [[ $index -eq 0 || $word != "$rest" ]]; then
            words+=('') begins+=("$index")
        fi
        rest=$word
        [[ $index -eq COMP_CWORD ]] || word=${COMP_WORDS[index]}
        words[${#words[@]} - 1]+=$word
        rest=${rest#"$word"}
    done
    word=${words[${#words[@]} - 1]}
    mapfile -t answer < <(perfuse complete -- "${words[@]:1}" 2>/dev/null)
    COMPREPLY=()
    # Where nothing is answered the shell's own completion, of files, remains.
    case ${answer[0]-} in
        words | list)
            compopt +o default +o bashdefault 2>/dev/null
            [[ ${answer[0]} = words ]] || compopt -o nospace 2>/dev/null
            COMPREPLY=("${answer[@]:1}")
            COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
            rest=${word%"${word##*[:=]}"}
            COMPREPLY=("${COMPREPLY[@]#"$rest"}")
            ;;
        folders)
            compopt +o default +o bashdefault -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -d -- "${word##*=}")
            ;;
        users) mapfile -t COMPREPLY < <(compgen -u -- "${word##*=}") ;;
        command*)
            index=${answer[0]#command }
            if ((index + 1 == ${#words[@]})); then
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -c -f -- "$word" | sort -u)
            elif declare -F _comp_command_offset >/dev/null; then
                _comp_command_offset "${begins[index]}"
            elif declare -F _command_offset >/dev/null; then
                _command_offset "${begins[index]}"
            fi
            ;;
    esac
}

complete -F _perfuse -o bashdefault -o default perfuse
