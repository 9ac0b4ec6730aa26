/**
 * Plants secrets and searches for them in the files, output and processes of a service.
 *
 * The search covers a secret verbatim and encoded for JSON, URLs, forms, HTML, hex and base64 at every offset. The
 * beginning of a secret counts as found, because a message may be truncated within it.
 */
import { type Dirent, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** The length of the beginning that counts as the secret. */
const PREFIX_CHARS = 20
/** Short enough that a short-lived process is likely to be seen. */
const SCAN_EVERY_MS = 15

export class PlantedSecrets {
  readonly #names = new Map<string, string>()
  /** By the hash of their first four characters, so that one pass over a text finds the places of all forms. */
  readonly #formsByStart: FormsByStart = new Array(START_HASHES)

  plant(name: string, secret: string): string {
    if (secret.length < PREFIX_CHARS)
      throw new Error(`the secret ${name} is shorter than ${PREFIX_CHARS} characters`)
    if (!this.#names.has(secret)) for (const form of formsOf(secret)) this.#add(form, secret)
    this.#names.set(secret, name)
    return secret
  }

  #add(form: string, secret: string): void {
    const start = startHash(form, 0)
    this.#formsByStart[start] = [...(this.#formsByStart[start] ?? []), { form, secret }]
  }

  get size(): number {
    return this.#names.size
  }

  /** Returns the names of the secrets in the text. */
  findIn(text: string): string[] {
    const found = new Set<string>()
    for (let at = 0; at <= text.length - START_CHARS; at++) {
      const forms = this.#formsByStart[startHash(text, at)]
      if (forms === undefined) continue
      for (const { form, secret } of forms)
        if (text.startsWith(form, at)) found.add(this.#names.get(secret) ?? '')
    }
    return [...found]
  }
}

interface SecretForm {
  readonly form: string
  readonly secret: string
}
type FormsByStart = (readonly SecretForm[] | undefined)[]
/** Every form is longer. Two characters would not tell a form from other hexadecimal numbers, of which logs are full. */
const START_CHARS = 4
const START_HASHES = 0x10000
/** The golden ratio as a fraction of 32 bits, which spreads similar starts. */
const SPREAD = 0x9e3779b1

function startHash(text: string, at: number): number {
  const low = (text.charCodeAt(at) & 0xff) | ((text.charCodeAt(at + 1) & 0xff) << 8)
  const high = (text.charCodeAt(at + 2) & 0xff) | ((text.charCodeAt(at + 3) & 0xff) << 8)
  return Math.imul(low | (high << 16), SPREAD) >>> 16
}

function formsOf(secret: string): string[] {
  const inJson = JSON.stringify(secret).slice(1, -1)
  const inForm = new URLSearchParams({ s: secret }).toString().slice(2)
  const inHtml = secret.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;')
  const heads = [secret, inJson, encodeURIComponent(secret), inForm, inHtml].map((form) =>
    form.slice(0, PREFIX_CHARS),
  )
  return [...new Set([...heads, ...inBase64(secret), Buffer.from(secret).toString('hex').slice(0, 40)])]
}

/** Returns the three base64 forms for the three possible offsets, without characters that depend on adjacent bytes. */
function inBase64(secret: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const text = Buffer.from('\0'.repeat(before) + secret.slice(0, PREFIX_CHARS)).toString('base64')
    const sure = text.slice(before === 0 ? 0 : 4, text.length - 4)
    return [sure, sure.replaceAll('+', '-').replaceAll('/', '_')]
  })
}

/** Reads every file below the folder; ignores files that a stopping process deletes meanwhile. */
export function readFilesBelow(folder: string): [path: string, text: string][] {
  return entriesIn(folder).flatMap((entry): [string, string][] => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return readFilesBelow(path)
    return entry.isFile() ? [[path, textOf(path)]] : []
  })
}

function entriesIn(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return []
  }
}

// ---- processes -----------------------------------------------------------------------------------------------------

export interface SecretSighting {
  /** For example `arguments of git push …`; the command line is truncated. */
  readonly where: string
  readonly name: string
  /** Whether the process is in another pid namespace. */
  readonly inSandbox: boolean
}

/** Scans all descendants of some processes repeatedly until it is stopped. */
export class ProcessWatcher {
  readonly #plants: PlantedSecrets
  readonly #roots: Set<number>
  readonly #timer: ReturnType<typeof setInterval>
  readonly #sightings = new Map<string, SecretSighting>()
  /** Running processes that are no descendants; most of a scan's time would go into reading them again. */
  #unrelated = new Set<number>()
  /** The names in texts that were searched already, by which most scans search nothing. */
  readonly #namesIn = new Map<string, readonly string[]>()
  #plantsSearched = 0
  readonly seenCommands = new Set<string>()

  constructor(plants: PlantedSecrets, roots: readonly number[]) {
    this.#plants = plants
    this.#roots = new Set(roots)
    this.#timer = setInterval(() => this.scan(), SCAN_EVERY_MS)
  }

  add(root: number): void {
    this.#roots.add(root)
    this.#unrelated.clear()
  }

  stop(): readonly SecretSighting[] {
    clearInterval(this.#timer)
    return [...this.#sightings.values()]
  }

  scan(): void {
    for (const pid of this.#descendants()) {
      // Read the namespace first: a process that has ended returns nothing.
      const inSandbox = isInOtherPidNamespace(pid)
      const [command, environment] = [textOf(`/proc/${pid}/cmdline`), textOf(`/proc/${pid}/environ`)]
      const shown = command.replaceAll('\0', ' ').slice(0, 80)
      this.seenCommands.add(shown)
      this.#recordSightings(`arguments of ${shown}`, command, inSandbox)
      this.#recordSightings(`environment of ${shown}`, environment, inSandbox)
    }
  }

  #recordSightings(where: string, text: string, inSandbox: boolean): void {
    for (const name of this.#findIn(text)) this.#sightings.set(`${name} ${where}`, { where, name, inSandbox })
  }

  #findIn(text: string): readonly string[] {
    // Texts are searched again for a secret that was planted meanwhile.
    if (this.#plantsSearched !== this.#plants.size) this.#namesIn.clear()
    this.#plantsSearched = this.#plants.size
    const known = this.#namesIn.get(text)
    const names = known ?? this.#plants.findIn(text)
    if (known === undefined) this.#namesIn.set(text, names)
    return names
  }

  #descendants(): number[] {
    const running = pids()
    const parents = new Map(
      running.filter((pid) => !this.#unrelated.has(pid)).map((pid) => [pid, parentOf(pid)]),
    )
    /** Undefined while an ancestor is unknown, because processes begin and end during the scan. */
    const isOurs = (pid: number): boolean | undefined => {
      if (this.#roots.has(pid)) return true
      if (pid === NO_PROCESS || this.#unrelated.has(pid)) return false
      const parent = parents.get(pid)
      return parent === undefined ? undefined : isOurs(parent)
    }
    const judged = [...parents.keys()].map((pid) => [pid, isOurs(pid)] as const)
    const unrelated = judged.filter(([, ours]) => ours === false).map(([pid]) => pid)
    // A number that is free at one scan may belong to a descendant at the next.
    this.#unrelated = new Set([...unrelated, ...running.filter((pid) => this.#unrelated.has(pid))])
    return judged.filter(([, ours]) => ours === true).map(([pid]) => pid)
  }
}

/** The parent of the first process and of kernel threads. */
const NO_PROCESS = 0

const pids = (): number[] => readdirSync('/proc').map(Number).filter(Number.isInteger)

function parentOf(pid: number): number | undefined {
  const parent = /^PPid:\s+(\d+)$/m.exec(textOf(`/proc/${pid}/status`))?.[1]
  return parent === undefined ? undefined : Number(parent)
}

function isInOtherPidNamespace(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`) !== readlinkSync('/proc/self/ns/pid')
  } catch {
    return false
  }
}

/** Returns '' when the file does not exist. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
