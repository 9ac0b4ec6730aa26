/**
 * Secrets that were planted, and the search for them in everything that a service leaves, says and starts.
 *
 * A secret is looked for as it is, as it stands in JSON, in an address, in a form, in HTML and in base64, whatever stood
 * before it there; and its beginning alone counts as found, for a sentence may have been cut within it.
 */
import { type Dirent, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** So much of a secret is one. */
const HEAD_CHARS = 20
/** As often as a process that lives for a moment is likely to be met. */
const LOOK_EVERY_MS = 15

export class Plants {
  readonly #names = new Map<string, string>()
  #forms: readonly (readonly [form: string, name: string])[] = []

  plant(name: string, secret: string): string {
    if (secret.length < HEAD_CHARS) throw new Error(`${name} is too short to be told from other text`)
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
  in(text: string): string[] {
    return [...new Set(this.#forms.filter(([form]) => text.includes(form)).map(([, name]) => name))]
  }
}

function formsOf(secret: string): string[] {
  const inJson = JSON.stringify(secret).slice(1, -1)
  const inForm = new URLSearchParams({ s: secret }).toString().slice(2)
  const inHtml = secret.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;')
  const heads = [secret, inJson, encodeURIComponent(secret), inForm, inHtml].map((form) =>
    form.slice(0, HEAD_CHARS),
  )
  return [...new Set([...heads, ...inBase64(secret), Buffer.from(secret).toString('hex').slice(0, 40)])]
}

/** Three, for it depends on how many bytes stand before it; what its neighbours have a part in is left out. */
function inBase64(secret: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const text = Buffer.from('\0'.repeat(before) + secret.slice(0, HEAD_CHARS)).toString('base64')
    const sure = text.slice(before === 0 ? 0 : 4, text.length - 4)
    return [sure, sure.replaceAll('+', '-').replaceAll('/', '_')]
  })
}

/** Every file below, as far as it is there when it is its turn: whoever was told to stop may still be tidying up. */
export function filesBelow(folder: string): [path: string, text: string][] {
  return entriesIn(folder).flatMap((entry): [string, string][] => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return filesBelow(path)
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

export interface Sighting {
  /** `arguments of git push …`: without the rest of the line, which may be long. */
  readonly where: string
  readonly name: string
  /** In another namespace of processes than ours. */
  readonly inSandbox: boolean
}

/** Looks at every process that comes of some, again and again, until it is told to stop. */
export class Watch {
  readonly #plants: Plants
  readonly #roots: Set<number>
  readonly #timer: ReturnType<typeof setInterval>
  readonly #sightings = new Map<string, Sighting>()
  readonly seen = new Set<string>()

  constructor(plants: Plants, roots: readonly number[]) {
    this.#plants = plants
    this.#roots = new Set(roots)
    this.#timer = setInterval(() => this.look(), LOOK_EVERY_MS)
  }

  add(root: number): void {
    this.#roots.add(root)
  }

  stop(): readonly Sighting[] {
    clearInterval(this.#timer)
    return [...this.#sightings.values()]
  }

  look(): void {
    for (const pid of this.#family()) {
      // First of all: of one that has ended since, nothing is read.
      const inSandbox = isElsewhere(pid)
      const [command, environment] = [textOf(`/proc/${pid}/cmdline`), textOf(`/proc/${pid}/environ`)]
      const shown = command.replaceAll('\0', ' ').slice(0, 80)
      this.seen.add(shown)
      this.#note(`arguments of ${shown}`, command, inSandbox)
      this.#note(`environment of ${shown}`, environment, inSandbox)
    }
  }

  #note(where: string, text: string, inSandbox: boolean): void {
    for (const name of this.#plants.in(text))
      this.#sightings.set(`${name} ${where}`, { where, name, inSandbox })
  }

  #family(): number[] {
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

function isElsewhere(pid: number): boolean {
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
