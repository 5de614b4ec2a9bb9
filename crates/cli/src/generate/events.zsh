# Names of events after -e, and of metrics after -M, are asked of perfuse itself.
_perfuse_events() {
    local -a found
    found=(${(f)"$(perfuse complete-events -- "$PREFIX" 2>/dev/null)"})
    compadd -S '' -a found
}

_perfuse_metrics() {
    local -a found
    found=(${(f)"$(perfuse complete-events --metrics -- "$PREFIX" 2>/dev/null)"})
    compadd -S '' -a found
}
