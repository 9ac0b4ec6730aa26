/** `switchyard completion SHELL`: prints the script that completes words and ids of switchyard in that shell. */
import { script } from '@bomb.sh/tab'

/**
 * The library's script for bash needs the package bash-completion, and evaluates what was typed. This one needs bash
 * alone (from 3.2), and evaluates nothing.
 */
const BASH = `# bash completion for switchyard
_switchyard() {
    local line="\${COMP_LINE:0:COMP_POINT}" value about
    local -a words
    read -ra words <<< "$line"
    case "$line" in *[[:space:]]) words+=('') ;; esac
    COMPREPLY=()
    while IFS=$'\\t' read -r value about; do
        case "$value" in
            :0) compopt -o default 2> /dev/null ;;
            :*) ;;
            *) COMPREPLY+=("$value") ;;
        esac
    done < <(switchyard complete -- "\${words[@]:1}" 2> /dev/null)
}
complete -F _switchyard switchyard
`

export type Shell = 'bash' | 'zsh' | 'fish'

export function completion(shell: Shell): void {
  if (shell === 'bash') process.stdout.write(BASH)
  else script(shell, 'switchyard', 'switchyard')
}
