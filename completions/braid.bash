# SPDX-License-Identifier: BSD-2-Clause
# braid.bash - completion for bash: commands, the options that `braid COMMAND --help` lists, files.
_braid()
{
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local braid=${COMP_WORDS[0]} words

    if [ "$COMP_CWORD" = 1 ]; then
        words=$("$braid" --help 2>/dev/null | awk '/^  [a-z]/ { print $1 }')
        mapfile -t COMPREPLY < <(compgen -W "$words --help --version" -- "$word")
        return
    fi
    case $previous in
    --layout) words="original alternate" ;;
    --metadata) words="0.90 1.0 1.1 1.2" ;;
    --bad) words="fail zero" ;;
    --offset | --length | --as | --io-timeout | --speed-max | --name | --port | --listen | --slots) return ;;
    -i | --input | -o | --output)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    *)
        case $word in
        -*) words=$("$braid" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u) ;;
        *)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -W missing -- "$word")
            return
            ;;
        esac
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _braid braid
