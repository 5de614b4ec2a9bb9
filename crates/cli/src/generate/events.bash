
# Names of events after -e, and of metrics after -M, are asked of perfuse itself.
_perfuse_with_events() {
    local line=${COMP_LINE:0:COMP_POINT} word before
    word=${line##*[[:space:]]}
    before=${line%"$word"}
    before=${before%"${before##*[![:space:]]}"}
    before=${before##*[[:space:]]}
    local -a kind=()
    case $before in
        -e | --event) ;;
        -M | --metrics) kind=(--metrics) ;;
        *)
            _perfuse "$@"
            return
            ;;
    esac
    mapfile -t COMPREPLY < <(perfuse complete-events "${kind[@]}" -- "$word" 2>/dev/null)
    # The shell takes what follows a colon for a word of its own.
    local kept=${word%"${word##*[:=]}"}
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    compopt -o nospace 2>/dev/null
}

complete -F _perfuse_with_events -o bashdefault -o default perfuse
