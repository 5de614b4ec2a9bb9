
# Names of events after -e, and of metrics after -M, are asked of perfuse itself.
complete -c perfuse -n "__fish_seen_subcommand_from stat record compare" -s e -l event -x -a '(perfuse complete-events -- (commandline -ct) 2>/dev/null)'
complete -c perfuse -n "__fish_seen_subcommand_from stat" -s M -l metrics -x -a '(perfuse complete-events --metrics -- (commandline -ct) 2>/dev/null)'
