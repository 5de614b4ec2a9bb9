# Completions of perfuse for fish: perfuse itself is asked, with the words up to the cursor.
function __perfuse_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l answer (perfuse complete -- $words[2..] $word 2>/dev/null)
    set -l before (string match -r -- '^--[^=]*=' $word)
    set -l value (string replace -r -- '^--[^=]*=' '' $word)
    switch "$answer[1]"
        case words list
            printf '%s\n' $answer[2..]
        case folders
            string replace -r -- '^' "$before" (__fish_complete_directories $value)
        case users
            string replace -r -- '^' "$before" (__fish_complete_users)
        case 'command *'
            set -l begin (math 1 + (string replace -- 'command ' '' $answer[1]))
            set -l line (string escape -- $words[$begin..])
            complete -C (string join ' ' -- $line $word)
        case '*'
            string replace -r -- '^' "$before" (__fish_complete_path $value)
    end
end

complete -c perfuse -f -a '(__perfuse_complete)'
