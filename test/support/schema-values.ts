/**
 * SchemaValues draws values from the schemas of the protocol, and remembers the place of every part, so that `damage.ts`
 * can spoil exactly one of them.
 */
import type { TSchema } from 'typebox'
import { asShape, type Shape } from '../../protocol/schema-errors.ts'
import type { Random } from './random.ts'

/** A part of a drawn value: `holder[key]`, which matches the shape. */
export interface Place {
  readonly holder: object
  readonly key: string
  readonly shape: Shape
}

/** The value itself is the first place, in a holder of its own. */
export interface DrawnValue {
  readonly root: { value: unknown }
  readonly places: Place[]
}

/** Values that mean something to the host, such as the ids of its runs, by the name of a key; most keys have none. */
export type KnownValues = (key: string) => readonly unknown[]

const KNOWN_SHARE = 0.85
const ENTRIES_MAX = 3
/** Optional keys become rarer in the depth, so that settings do not grow without end. */
const OPTIONAL_SHARES = [0.5, 0.4, 0.3, 0.2]

export class SchemaValues {
  readonly #random: Random
  readonly #known: KnownValues

  constructor(random: Random, known: KnownValues) {
    this.#random = random
    this.#known = known
  }

  draw(schema: TSchema): DrawnValue {
    const root = { value: undefined }
    const places: Place[] = []
    this.#put(places, root, 'value', asShape(schema), 0)
    return { root, places }
  }

  #put(places: Place[], holder: object, key: string, given: Shape, depth: number): void {
    const shape = given.anyOf === undefined ? given : this.#branchOf(given.anyOf)
    places.push({ holder, key, shape })
    const known = shape.const === undefined && shape.enum === undefined ? this.#known(key) : []
    const value =
      known.length > 0 && this.#random.chance(KNOWN_SHARE)
        ? this.#random.pick(known)
        : this.#value(places, shape, depth)
    Reflect.set(holder, key, value)
  }

  #branchOf(branches: readonly Shape[]): Shape {
    const branch = this.#random.pick(branches)
    return branch.anyOf === undefined ? branch : this.#branchOf(branch.anyOf)
  }

  #value(places: Place[], shape: Shape, depth: number): unknown {
    if (shape.const !== undefined) return shape.const
    if (shape.enum !== undefined) return this.#random.pick(shape.enum)
    switch (shape.type) {
      case 'object':
        return this.#object(places, shape, depth)
      case 'array':
        return this.#list(places, shape, depth)
      case 'string':
        return this.text(shape)
      case 'integer':
      case 'number':
        return this.#number(shape)
      case 'boolean':
        return this.#random.chance(0.5)
      case 'null':
        return null
      default:
        // A schema without a type accepts everything.
        return this.#random.pick([null, 0, 'x', {}])
    }
  }

  #object(places: Place[], shape: Shape, depth: number): object {
    const made = {}
    const share = OPTIONAL_SHARES[depth] ?? 0.1
    for (const [key, field] of Object.entries(shape.properties ?? {}))
      if (shape.required?.includes(key) || this.#random.chance(share))
        this.#put(places, made, key, field, depth + 1)
    for (const [pattern, field] of Object.entries(shape.patternProperties ?? {}))
      for (let left = this.#random.below(ENTRIES_MAX); left > 0; left--)
        this.#put(places, made, this.#random.pick(textsOf(pattern)), field, depth + 1)
    return made
  }

  #list(
    places: Place[],
    { items = {}, minItems = 0, maxItems = ENTRIES_MAX }: Shape,
    depth: number,
  ): unknown[] {
    const made: unknown[] = []
    const count = Math.min(maxItems, minItems + this.#random.below(ENTRIES_MAX))
    for (let index = 0; index < count; index++) this.#put(places, made, String(index), items, depth + 1)
    return made
  }

  #number({ type, minimum, exclusiveMinimum, maximum = Number.MAX_SAFE_INTEGER }: Shape): number {
    const least = minimum ?? (exclusiveMinimum === undefined ? 0 : exclusiveMinimum + 1)
    const some = this.#random.pick([0, 1, 2, 7, 60, this.#random.below(1_000)])
    const drawn = Math.min(maximum, least + some)
    return type === 'integer' || drawn >= maximum || this.#random.chance(0.7) ? drawn : drawn + 0.5
  }

  text({ pattern, minLength = 0, maxLength = Number.POSITIVE_INFINITY }: Shape): string {
    const drawn = this.#random.pick(pattern === undefined ? TEXTS : textsOf(pattern)).slice(0, maxLength)
    return drawn.length < minLength ? 'x'.repeat(minLength) : drawn
  }
}

const TEXTS = [
  '',
  'x',
  'ENG-1',
  'two words',
  'ä lamp 💡',
  'https://example.invalid/a?b=c',
  'a\nb\n',
  '7',
  'main',
]

function textsOf(pattern: string): readonly string[] {
  const texts = TEXTS_BY_PATTERN[pattern]
  if (texts === undefined) throw new Error(`schema-values.ts has no texts that match ${pattern}`)
  return texts
}

/** Texts that match each pattern of the protocol; a pattern without texts fails the tests that draw it. */
const TEXTS_BY_PATTERN: Readonly<Record<string, readonly string[]>> = {
  '^(localhost|127(?:\\.(?:0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])){3}|::1|\\[::1\\])$': [
    'localhost',
    '127.0.0.1',
    '::1',
    '[::1]',
  ],
  '^(null|[a-z][a-z0-9+.-]*://[A-Za-z0-9.:_\\[\\]-]*)$': ['null', 'https://pages.invalid', 'app://'],
  '^[A-Za-z0-9:.\\[\\]_-]+$': ['0.0.0.0', '::', 'lamp.invalid'],
  '^(\\*\\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$': [
    '*.lamp.invalid',
    'lamp.invalid:443',
    'a',
  ],
  '^[A-Za-z0-9*][A-Za-z0-9*._:@/\\[\\]-]{0,99}$': ['*', 'large', 'small*'],
  '^[A-Za-z0-9][A-Za-z0-9._:@/\\[\\]-]{0,99}$': ['large', 'small', 'v/1:2@3[4]'],
  '^[!-~]*$': ['', 'secret', '~!'],
  '^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?Z|\\*\\*\\*)?$': [
    '',
    '***',
    '2026-01-01T00:00:00Z',
    '9999-99-99T99:99:99.9Z',
  ],
  '^(?!\\.{1,2}$)[^\\u0000-\\u001f\\u007f]{1,200}$': ['main', 'other', 'a/b c', 'toString'],
  '^(?![.-])[A-Za-z0-9._-]{1,100}/(?!-|\\.{1,2}$)[A-Za-z0-9._-]{1,100}$': ['owner/name', 'a/b', 'o_/_.x'],
  '^(?!https?://[^/]*@|https?://[^\\s]*[?#]|[a-z]+://[^/]*:[^/]*@)(https?://|ssh://|file://|/|[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9.-]+:(?!:))[^\\s]*$':
    ['https://code.invalid/a.git', 'ssh://code.invalid/a', 'git@code.invalid:a', '/nowhere'],
  '^(?!.*\\.\\.)[A-Za-z0-9_][A-Za-z0-9._/+@-]*$': ['main', 'release/1', 'a@b+c'],
  '^[A-Za-z0-9][A-Za-z0-9_-]*$': ['x', 'run-0', '7_-'],
  '^(?=.*\\S)[^\\p{Cc}\\p{Cs}\\p{Zl}\\p{Zp}]+$': ['bug', 'ä 💡', ' a '],
  '^(?!-)[^\\s\\p{Cc}]*$': ['', 'large', '💡'],
  '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\\.[0-9]{3}Z$':
    [
      '2026-01-01T00:00:00.000Z',
      '0000-01-01T00:00:00.000Z',
      '9999-12-31T23:59:59.999Z',
      '2026-02-31T12:00:00.000Z',
    ],
  '^(https?|file)://[^\\s]+$': [
    'https://codehost.example/owner/name/pull/1',
    'http://[',
    'file://x',
    'https://%',
  ],
  '^((https?|file)://[^\\s]+)?$': ['', 'https://codehost.example/owner/name/pull/1', 'http://['],
  '^(?!\\.{1,2}$)[^\\p{Cc}\\p{Cs}/\\\\]+$': ['log.txt', '...', 'lamp 💡.png', '__proto__', 'a.json'],
  '^[A-Za-z0-9+/]*={0,2}$': ['', 'aGk=', 'QUJD', 'QUJDQUJDQUJDQUJD'],
  '^(?!.*\\.json$)[A-Za-z0-9_-][A-Za-z0-9._-]*$': ['-home-me', 'session-1', '__proto__', 'a..b'],
  '^[0-9a-f]{64}$': [
    '0000000000000000000000000000000000000000000000000000000000000000',
    'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',
  ],
}
