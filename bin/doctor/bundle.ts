/**
 * Writes an archive for a bug report: versions, settings, findings, the host's records and the end of its log.
 *
 * No secret is in it: settings are masked, and every text passes the redaction of all secrets that are known here. The
 * file is new, and readable by its owner alone. It lists the data directory's files and contains none of them.
 */
import { access } from 'node:fs/promises'
import { release } from 'node:os'
import { gzipSync } from 'node:zlib'
import { redactConfig } from '../../core/settings/redact.ts'
import { codeOf, messageOf } from '../../store/errors.ts'
import { createFile } from '../../store/files/atomic.ts'
import type { CommandContext } from '../client/run-command.ts'
import { EXIT, ExitError } from '../exit.ts'
import { VERSION } from '../version.ts'
import { createBundleRedactor } from './bundle-secrets.ts'
import type { ExaminedMachine } from './examined-machine.ts'
import { listFiles } from './file-list.ts'
import type { Finding } from './finding.ts'
import { readHostLog } from './host-log.ts'
import { type ArchivedFile, createTar } from './tar.ts'

export interface BundleParts {
  readonly context: CommandContext
  readonly machine: ExaminedMachine
  readonly findings: readonly Finding[]
}

/** The folder inside the archive. */
const FOLDER = 'switchyard-doctor'

/** Throws before anything is examined, because a report may not be overwritten. */
export async function refuseExisting(file: string): Promise<void> {
  const exists = await access(file).then(
    () => true,
    () => false,
  )
  if (exists) throw alreadyThere(file)
}

/** Returns the names of the files in the archive. */
export async function writeBundle(file: string, parts: BundleParts): Promise<readonly string[]> {
  const redact = await createBundleRedactor(parts)
  const files = (await collect(parts)).map(({ name, text }) => ({ name, text: redact(text) }))
  const archived = files.map(({ name, text }) => ({ name: `${FOLDER}/${name}`, text }))
  await writeNew(file, gzipSync(createTar(archived, parts.machine.now())))
  return files.map(({ name }) => name)
}

const alreadyThere = (file: string) =>
  new ExitError(EXIT.usage, `${file} exists and is left as it is`, 'name another file')

async function writeNew(file: string, content: Buffer): Promise<void> {
  try {
    await createFile(file, content)
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw alreadyThere(file)
    throw new ExitError(EXIT.usage, `${file} cannot be written: ${messageOf(error)}`)
  }
}

// ---- what is in it -------------------------------------------------------------------------------------------------

async function collect(parts: BundleParts): Promise<readonly ArchivedFile[]> {
  const { machine, findings } = parts
  const [config, host, log] = await Promise.all([machine.config(), machine.host(), readHostLog(machine)])
  const files = [
    json('about.json', await describeMachine(machine)),
    json('findings.json', { findings }),
    config.ok
      ? json('config.json', redactConfig(config.value))
      : { name: 'config.txt', text: `The configuration cannot be used: ${config.refusal.message}\n` },
  ]
  if (host.is === 'running') {
    const { health, tracker, workers, attention, metrics } = host
    files.push(json('host.json', { health, tracker, workers, attention }))
    files.push({ name: 'metrics.txt', text: metrics })
  }
  if (machine.place !== 'elsewhere') files.push({ name: 'files.txt', text: await listFiles(machine.dataDir) })
  if (log !== undefined) files.push({ name: 'host.log', text: log })
  return files
}

const json = (name: string, value: unknown): ArchivedFile => ({
  name,
  text: `${JSON.stringify(value, undefined, 2)}\n`,
})

async function describeMachine({ place, dataDir, now, git }: ExaminedMachine): Promise<object> {
  const { platform, arch, versions } = process
  const found = await git()
  return {
    at: new Date(now()).toISOString(),
    switchyard: VERSION,
    place,
    dataDir,
    node: versions.node,
    platform,
    arch,
    kernel: release(),
    git: found.ok ? found.value : undefined,
  }
}
