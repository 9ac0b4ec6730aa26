/**
 * Secrets that were planted, and the search for them in everything that a service leaves, says and starts.
 *
 * A secret is looked for as it is, as it stands in JSON, in an address, in a form, in HTML and in base64, whatever stood
 * before it there; and its beginning alone counts as found, for a sentence may have been cut within it.
 */
import { type Dirent, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** So much of a secret is one. */
const PREFIX_CHARS = 20
/** As often as a process that lives for a moment is likely to be met. */
const SCAN_EVERY_MS = 15

export class PlantedSecrets {
  readonly #names = new Map<string, string>()
  #forms: readonly (readonly [form: string, name: string])[] = []

  plant(name: string, secret: string): string {
    if (secret.length < PREFIX_CHARS) throw new Error(`${name} is too short to be told from other text`)
    this.#names.set(secret, name)
    this.#forms = [...this.#names].flatMap(([one, whose]) =>
      formsOf(one).map((form) => [form, whose] as const),
    )
    return secret
  }

  get size(): number {
    return this.#names.size
  }

  /** Whose secrets stand in it. */
  findIn(text: string): string[] {
    return [...new Set(this.#forms.filter(([form]) => text.includes(form)).map(([, name]) => name))]
  }
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

/** Three, for it depends on how many bytes stand before it; what its neighbours have a part in is left out. */
function inBase64(secret: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const text = Buffer.from('\0'.repeat(before) + secret.slice(0, PREFIX_CHARS)).toString('base64')
    const sure = text.slice(before === 0 ? 0 : 4, text.length - 4)
    return [sure, sure.replaceAll('+', '-').replaceAll('/', '_')]
  })
}

/** Every file below, as far as it is there when it is its turn: whoever was told to stop may still be tidying up. */
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
  /** `arguments of git push …`: without the rest of the line, which may be long. */
  readonly where: string
  readonly name: string
  /** In another namespace of processes than ours. */
  readonly inSandbox: boolean
}

/** Looks at every process that comes of some, again and again, until it is told to stop. */
export class ProcessWatcher {
  readonly #plants: PlantedSecrets
  readonly #roots: Set<number>
  readonly #timer: ReturnType<typeof setInterval>
  readonly #sightings = new Map<string, SecretSighting>()
  readonly seenCommands = new Set<string>()

  constructor(plants: PlantedSecrets, roots: readonly number[]) {
    this.#plants = plants
    this.#roots = new Set(roots)
    this.#timer = setInterval(() => this.scan(), SCAN_EVERY_MS)
  }

  add(root: number): void {
    this.#roots.add(root)
  }

  stop(): readonly SecretSighting[] {
    clearInterval(this.#timer)
    return [...this.#sightings.values()]
  }

  scan(): void {
    for (const pid of this.#descendants()) {
      // First of all: of one that has ended since, nothing is read.
      const inSandbox = isInOtherPidNamespace(pid)
      const [command, environment] = [textOf(`/proc/${pid}/cmdline`), textOf(`/proc/${pid}/environ`)]
      const shown = command.replaceAll('\0', ' ').slice(0, 80)
      this.seenCommands.add(shown)
      this.#recordSightings(`arguments of ${shown}`, command, inSandbox)
      this.#recordSightings(`environment of ${shown}`, environment, inSandbox)
    }
  }

  #recordSightings(where: string, text: string, inSandbox: boolean): void {
    for (const name of this.#plants.findIn(text))
      this.#sightings.set(`${name} ${where}`, { where, name, inSandbox })
  }

  #descendants(): number[] {
    const parents = new Map(pids().map((pid) => [pid, parentOf(pid)]))
    const isOurs = (pid: number | undefined): boolean =>
      pid !== undefined && (this.#roots.has(pid) || isOurs(parents.get(pid)))
    return [...parents.keys()].filter(isOurs)
  }
}

const pids = (): number[] => readdirSync('/proc').map(Number).filter(Number.isInteger)

function parentOf(pid: number): number | undefined {
  const parent = /^PPid:\s+(\d+)$/m.exec(textOf(`/proc/${pid}/status`))?.[1]
  return parent === undefined || parent === '0' ? undefined : Number(parent)
}

function isInOtherPidNamespace(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`) !== readlinkSync('/proc/self/ns/pid')
  } catch {
    return false
  }
}

/** Empty when it is not there, any more or yet. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
