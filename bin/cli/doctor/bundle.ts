/**
 * Writes an archive for a bug report: versions, settings, findings, the host's records and the end of its log.
 *
 * No secret is in it: settings are masked, and every text passes the redaction of all secrets that are known here. The
 * file is new, and readable by its owner alone. It lists the data directory's files and contains none of them.
 */
import { existsSync } from 'node:fs'
import { access, lstat, open, readdir, readFile } from 'node:fs/promises'
import { release } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { createRedactor } from '../../../core/redact-secrets.ts'
import { redactConfig, secretsOf } from '../../../core/settings/redact.ts'
import { codeOf, messageOf } from '../../../protocol/message-of.ts'
import { createFile } from '../../../store/files/atomic.ts'
import { homeFolder } from '../../process/data-dir.ts'
import { usageError } from '../../process/exit.ts'
import { LogRedactor } from '../../process/log-redaction.ts'
import { VERSION } from '../../process/this-program.ts'
import type { CommandContext } from '../command/run-command.ts'
import { createManagerRunner } from '../service/service-manager.ts'
import { dataDirOfUnit, unitOf } from '../service/systemd.ts'
import type { Finding } from './examine.ts'
import type { ExaminedMachine } from './examined-machine.ts'

/** The end of the host's log in a bundle, and the files of the data directory that it lists. */
const BUNDLE_LOG_BYTES_MAX = 1024 * 1024
const BUNDLE_LOG_LINES_MAX = 2_000
const BUNDLE_FILES_LISTED_MAX = 2_000

interface BundleParts {
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

const alreadyThere = (file: string) => usageError(`${file} exists and is left as it is`, 'name another file')

async function writeNew(file: string, content: Buffer): Promise<void> {
  try {
    await createFile(file, content)
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw alreadyThere(file)
    throw usageError(`${file} cannot be written: ${messageOf(error)}`)
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

// ---- bundle secrets --------------------------------------------------------------------------------------------------

/** Files whose every text value counts as a secret. */
const SECRET_FILES = ['launch.json', 'credential.json']
const SECRET_NAME = /TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL/i
/** A word such as a version or a mode is no secret, and its redaction would damage the texts. */
const SECRET_CHARS_MIN = 8

/** Collects every secret that this machine's files and environment hold, and redacts them from the texts of a bundle. */
async function createBundleRedactor(parts: BundleParts): Promise<(text: string) => string> {
  const secrets = (
    await Promise.all([secretsOfFiles(parts), secretsOfConfig(parts), tokenOfHost(parts)])
  ).flat()
  const known = [...secrets, ...secretsOfEnvironment(parts)].filter(
    ({ length }) => length >= SECRET_CHARS_MIN,
  )
  const patterns = new LogRedactor()
  const redactForms = createRedactor(known)
  return (text) => patterns.redact(redactForms(text))
}

const secretsOfEnvironment = ({ machine }: BundleParts): readonly string[] =>
  Object.entries(machine.environment).flatMap(([name, value]) =>
    value !== undefined && SECRET_NAME.test(name) ? [value] : [],
  )

/** The command took the token out of the environment. */
async function tokenOfHost({ context }: BundleParts): Promise<readonly string[]> {
  try {
    const { token } = await context.connection.address()
    return token === undefined ? [] : [token]
  } catch {
    return []
  }
}

async function secretsOfFiles({ machine }: BundleParts): Promise<readonly string[]> {
  const texts = SECRET_FILES.map((name) => readFile(join(machine.dataDir, name), 'utf8').catch(() => ''))
  return (await Promise.all(texts)).flatMap((text) => secretsIn(parse(text)))
}

/** A file that does not validate may still hold secrets that a log repeats. */
async function secretsOfConfig({ machine }: BundleParts): Promise<readonly string[]> {
  const config = await machine.config()
  if (config.ok) return secretsOf(config.value)
  return secretsIn(parse(await readFile(join(machine.dataDir, 'config.json'), 'utf8').catch(() => '')))
}

function secretsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => {
    if (typeof inner !== 'string') return secretsIn(inner)
    return SECRET_NAME.test(key) || LOGIN_NAME.test(key) ? [inner] : []
  })
}

const LOGIN_NAME = /login|redeemed/i

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

// ---- host log --------------------------------------------------------------------------------------------------------

/**
 * Reads the end of the host's log, where one is kept: `host.log` in the data directory, or the log of its service.
 *
 * A host that a person started in a terminal keeps no log.
 */
async function readHostLog(machine: ExaminedMachine): Promise<string | undefined> {
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

// ---- file list -------------------------------------------------------------------------------------------------------

/** Lists the files below a folder with mode, size and time, folder by folder, and counts what exceeds the limit. */
async function listFiles(root: string): Promise<string> {
  const lines: string[] = []
  const folders = ['']
  for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
    const entries = await readdir(join(root, folder), { withFileTypes: true }).catch(() => [])
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (lines.length >= BUNDLE_FILES_LISTED_MAX) return `${lines.join('\n')}\nand more\n`
      const path = join(folder, entry.name)
      lines.push(await describe(root, path))
      if (entry.isDirectory()) folders.push(path)
    }
  }
  return `${lines.join('\n')}\n`
}

async function describe(root: string, path: string): Promise<string> {
  const stats = await lstat(join(root, path)).catch(() => undefined)
  if (stats === undefined) return `gone ${path}`
  const { mode, size, mtime } = stats
  return `${mode.toString(8).padStart(6, '0')} ${String(size).padStart(12)} ${mtime.toISOString()} ${path}`
}

// ---- tar -------------------------------------------------------------------------------------------------------------

interface ArchivedFile {
  /** Up to 100 ASCII characters. */
  readonly name: string
  readonly text: string
}

const BLOCK_BYTES = 512

/** Writes a tar archive of small text files in memory, in the ustar format that every tar reads. */
function createTar(files: readonly ArchivedFile[], writtenAt: number): Buffer {
  const seconds = Math.floor(writtenAt / 1000)
  const parts = files.flatMap(({ name, text }) => {
    const content = Buffer.from(text)
    return [headerOf(name, content.length, seconds), content, paddingAfter(content.length)]
  })
  // Two empty blocks end an archive.
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK_BYTES)])
}

const paddingAfter = (bytes: number): Buffer =>
  Buffer.alloc((BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES)

function headerOf(name: string, bytes: number, seconds: number): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES)
  header.write(name, 0, 100, 'ascii')
  writeOctal(header, 0o600, 100, 8)
  writeOctal(header, 0, 108, 8)
  writeOctal(header, 0, 116, 8)
  writeOctal(header, bytes, 124, 12)
  writeOctal(header, seconds, 136, 12)
  // The checksum counts its own field as spaces.
  header.write('        ', 148, 8, 'ascii')
  header.write('0', 156, 1, 'ascii')
  header.write('ustar\x0000', 257, 8, 'ascii')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 8, 'ascii')
  return header
}

function writeOctal(header: Buffer, value: number, at: number, length: number): void {
  header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, length, 'ascii')
}
