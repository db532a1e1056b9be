# SPDX-License-Identifier: BSD-2-Clause
# braid.bash - completion for bash: commands, the options that `braid COMMAND --help` lists, files.
_braid()
{
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local braid=${COMP_WORDS[0]} words

    local command=("${COMP_WORDS[1]}")
    [ "${COMP_WORDS[1]}" != bench ] || command+=("${COMP_WORDS[2]}")
    if [ "$COMP_CWORD" = 1 ]; then
        words=$("$braid" --help 2>/dev/null | awk '/^  [a-z]/ { print $1 }')
        mapfile -t COMPREPLY < <(compgen -W "$words --help --version" -- "$word")
        return
    fi
    if [ "${COMP_WORDS[1]}" = bench ] && [ "$COMP_CWORD" = 2 ]; then
        words=$("$braid" bench --help 2>/dev/null | awk '/^  [a-z]/ { print $1 }')
        mapfile -t COMPREPLY < <(compgen -W "$words --help" -- "$word")
        return
    fi
    case $previous in
    --data) words="random zero" ;;
    --block | --read-share | --depth | --threads | --processes | --time | --warm-up | --requests) return ;;
    --size | --seed | --id | --random-min | --random-max) return ;;
    --layout) words="original alternate" ;;
    --metadata) words="0.90 1.0 1.1 1.2" ;;
    --bad) words="fail zero" ;;
    --read-policy) words="expected-time first round-robin md" ;;
    --offset | --length | --as | --io-timeout | --speed-max | --name | --port | --listen | --slots) return ;;
    -i | --input | -o | --output)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    *)
        case $word in
        -*) words=$("$braid" "${command[@]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u) ;;
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
