/** Formats the systemd user units as `service install` writes them, and reads the host's data directory back. */
import { formatServiceUnit, quoteUnitArgument, quoteUnitWord } from '../../core/service/systemd-unit.ts'
import { EXIT, ExitError } from '../exit.ts'
import { BY_SWITCHYARD, type Service } from './service-manager.ts'
import type { ServiceProgram } from './service-program.ts'

const DATA_DIR = 'data directory: '

export interface UnitOptions {
  readonly role: Service['role']
  /** As `systemctl --user edit` names the unit. */
  readonly name: string
  readonly words: readonly string[]
  readonly stopSeconds: number
}

export function formatUnit(
  { node, script, dataDir, environment }: ServiceProgram,
  { role, name, words, stopSeconds }: UnitOptions,
): string {
  return formatServiceUnit({
    role,
    scope: 'user',
    notes: [
      BY_SWITCHYARD,
      `Settings of your own belong into: systemctl --user edit ${name}`,
      `${DATA_DIR}${JSON.stringify(dataDir)}`,
    ],
    command: [quoteProgram(node), ...[script, ...words].map(quoteUnitArgument)].join(' '),
    settings: Object.entries(environment).map(
      ([name, value]) => `Environment=${quoteUnitWord(`${name}=${value}`)}`,
    ),
    stopSeconds,
  })
}

/** Returns the host's data directory of a unit that `formatUnit` wrote. */
export function dataDirOfUnit(unit: string): string | undefined {
  const begin = `# ${DATA_DIR}`
  const line = unit.split('\n').find((each) => each.startsWith(begin))
  try {
    return line === undefined ? undefined : String(JSON.parse(line.slice(begin.length)))
  } catch {
    return undefined
  }
}

function quoteProgram(path: string): string {
  if (/["'\\]/.test(path))
    throw new ExitError(
      EXIT.usage,
      `systemd starts no program whose path has a quote or a backslash: ${path}`,
      'run this command with a node of another path',
    )
  return quoteUnitWord(path)
}
