/**
 * Reads the end of the host's log, where one is kept: `host.log` in the data directory, or the log of its service.
 *
 * A host that a person started in a terminal keeps no log.
 */
import { existsSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BUNDLE_LOG_BYTES_MAX, BUNDLE_LOG_LINES_MAX } from '../../protocol/limits.ts'
import { homeFolder } from '../data-dir.ts'
import { createManagerRunner } from '../service/run-manager.ts'
import { unitOf } from '../service/systemd.ts'
import { dataDirOfUnit } from '../service/systemd-unit.ts'
import type { ExaminedMachine } from './examined-machine.ts'

export async function readHostLog(machine: ExaminedMachine): Promise<string | undefined> {
  // A log here is of another host, whose secrets the bundle does not know.
  if (machine.place === 'elsewhere') return undefined
  const file = await readTail(join(machine.dataDir, 'host.log'))
  if (file !== undefined) return file
  if (process.platform === 'darwin')
    return await readTail(join(homeFolder(), 'Library', 'Logs', 'switchyard.log'))
  return (await isService(machine)) ? await readJournal(machine.environment) : undefined
}

/** Whole lines only, because half a secret would not be recognised. */
async function readTail(path: string): Promise<string | undefined> {
  const file = await open(path, 'r').catch(() => undefined)
  if (file === undefined) return undefined
  try {
    const { size } = await file.stat()
    const bytes = Buffer.alloc(Math.min(size, BUNDLE_LOG_BYTES_MAX))
    await file.read(bytes, 0, bytes.length, size - bytes.length)
    const text = bytes.toString()
    return size > bytes.length ? text.slice(text.indexOf('\n') + 1) : text
  } finally {
    await file.close()
  }
}

/** The unit of this user may serve another data directory. */
async function isService({ dataDir, environment }: ExaminedMachine): Promise<boolean> {
  const config = environment.XDG_CONFIG_HOME
  const folder = config?.startsWith('/') ? config : join(homeFolder(), '.config')
  const unit = join(folder, 'systemd', 'user', unitOf('host'))
  return existsSync(unit) && dataDirOfUnit(await readFile(unit, 'utf8').catch(() => '')) === dataDir
}

async function readJournal(environment: ExaminedMachine['environment']): Promise<string | undefined> {
  const lines = ['--lines', String(BUNDLE_LOG_LINES_MAX), '--reverse', '--output', 'short-iso', '--no-pager']
  const { code, out } = await createManagerRunner(environment)([
    'journalctl',
    '--user',
    '--unit',
    unitOf('host'),
    ...lines,
  ])
  // A log that is too long for the runner lacks its oldest lines, and the last one here may be half a line.
  const newestFirst = out.trimEnd().split('\n')
  const whole = code === 0 ? newestFirst : newestFirst.slice(0, -1)
  const text = whole.reverse().join('\n')
  return text === '' ? undefined : `${text}\n`
}
