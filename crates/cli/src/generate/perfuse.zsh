#compdef perfuse
# Completions of perfuse for zsh: perfuse itself is asked, with the words up to the cursor.
_perfuse() {
    local -a answer names shown
    local kind index
    answer=("${(@f)$(perfuse complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    kind=$answer[1]
    shift answer
    case $kind in
        words | list)
            names=("${(@)answer%%$'\t'*}")
            shown=("${(@)answer/$'\t'/  -- }")
            local -a looks
            # Descriptions stand in lines of their own.
            [[ "$answer" != *$'\t'* ]] || looks=(-l -d shown)
            [[ $kind = words ]] || looks+=(-S '')
            (( $#names )) && [[ -n $names[1] ]] && compadd "${(@)looks}" -a names
            ;;
        files) compset -P '--*='; _files ;;
        folders) compset -P '--*='; _files -/ ;;
        users) compset -P '--*='; _users ;;
        command*)
            index=${kind#command }
            words=("${(@)words[index+1,-1]}")
            (( CURRENT -= index ))
            _normal
            ;;
        *) _files ;;
    esac
}

# As a file on the function path it is called at once; else it makes itself known.
if [[ $funcstack[1] = _perfuse ]]; then
    _perfuse "$@"
else
    compdef _perfuse perfuse
fi
