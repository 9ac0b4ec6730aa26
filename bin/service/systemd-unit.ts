/**
 * Formats the systemd user unit of the host.
 *
 * The unit has no hardening that needs a seccomp filter or a mount namespace: for a user's service these imply
 * `NoNewPrivileges=` or cover parts of /proc, and bubblewrap then can't make a sandbox. Each sandbox has both itself.
 */
import { SERVICE_STOP_SECONDS_MAX } from '../../protocol/limits.ts'
import { EXIT, ExitError } from '../exit.ts'
import { BY_SWITCHYARD } from './service-manager.ts'
import type { ServiceProgram } from './service-program.ts'

const DATA_DIR = '# data directory: '
/** A restart cures neither wrong use, nor newer data, nor a directory in use, nor a wrong configuration. */
const LASTING_EXITS = [EXIT.usage, EXIT.dataTooNew, EXIT.inUse, EXIT.config]

export function formatUnit({ node, script, dataDir, environment }: ServiceProgram): string {
  const variables = Object.entries(environment).map(
    ([name, value]) => `Environment=${quoteUnitWord(`${name}=${value}`)}`,
  )
  const words = [script, 'serve', '--data-dir', dataDir].map(quoteArgument)
  return `# ${BY_SWITCHYARD}
# Settings of your own belong into: systemctl --user edit switchyard
${DATA_DIR}${JSON.stringify(dataDir)}
[Unit]
Description=switchyard host
StartLimitIntervalSec=600
StartLimitBurst=10

[Service]
ExecStart=${[quoteProgram(node), ...words].join(' ')}
${variables.join('\n')}
UMask=0077
LimitCORE=0
Restart=on-failure
RestartSec=10
RestartPreventExitStatus=${LASTING_EXITS.join(' ')}
# The host gets the signal and ends its worker and sandboxes; what is left after it is killed.
KillMode=mixed
TimeoutStopSec=${SERVICE_STOP_SECONDS_MAX}
# A sandbox that runs out of memory must not end the host.
OOMPolicy=continue
# The worker may make control groups for its sandboxes.
Delegate=yes

[Install]
WantedBy=default.target
`
}

/** Returns the data directory of a unit that `formatUnit` wrote. */
export function dataDirOfUnit(unit: string): string | undefined {
  const line = unit.split('\n').find((each) => each.startsWith(DATA_DIR))
  try {
    return line === undefined ? undefined : String(JSON.parse(line.slice(DATA_DIR.length)))
  } catch {
    return undefined
  }
}

/** Quotes a text as one word of a unit: escapes as in C, and `%` doubled, which begins a specifier. */
export function quoteUnitWord(text: string): string {
  const escaped = text
    .replace(/["\\]/g, '\\$&')
    .replace(/\p{Cc}/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .replaceAll('%', '%%')
  return `"${escaped}"`
}

/** In the arguments of a command `$` begins a variable. In its first word `$` stands for itself. */
const quoteArgument = (text: string): string => quoteUnitWord(text.replaceAll('$', '$$$$'))

function quoteProgram(path: string): string {
  if (/["'\\]/.test(path))
    throw new ExitError(
      EXIT.usage,
      `systemd starts no program whose path has a quote or a backslash: ${path}`,
      'run this command with a node of another path',
    )
  return quoteUnitWord(path)
}
