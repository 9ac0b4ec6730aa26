/** Formats the systemd user unit of the host as `service install` writes it, and reads its data directory back. */
import {
  formatServiceUnit,
  hostStopSeconds,
  quoteUnitArgument,
  quoteUnitWord,
} from '../../core/service/systemd-unit.ts'
import { EXIT, ExitError } from '../exit.ts'
import { BY_SWITCHYARD } from './service-manager.ts'
import type { ServiceProgram } from './service-program.ts'

const DATA_DIR = 'data directory: '

export function formatUnit({ node, script, dataDir, environment }: ServiceProgram): string {
  const words = [script, 'serve', '--data-dir', dataDir].map(quoteUnitArgument)
  return formatServiceUnit({
    role: 'host',
    scope: 'user',
    notes: [
      BY_SWITCHYARD,
      'Settings of your own belong into: systemctl --user edit switchyard',
      `${DATA_DIR}${JSON.stringify(dataDir)}`,
    ],
    command: [quoteProgram(node), ...words].join(' '),
    settings: Object.entries(environment).map(
      ([name, value]) => `Environment=${quoteUnitWord(`${name}=${value}`)}`,
    ),
    stopSeconds: hostStopSeconds,
  })
}

/** Returns the data directory of a unit that `formatUnit` wrote. */
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
