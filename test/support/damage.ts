/**
 * `damaged` turns a drawn value into JSON text with one part replaced: by a value at its limits that the schema still
 * accepts (`strained`), or by something that no schema accepts (`broken`).
 *
 * The part is replaced in the text, so also what no value of JavaScript shows can stand there: repeated keys, -0, numbers
 * beyond all limits, and keys of prototypes.
 */
import type { Random } from './random.ts'
import type { DrawnValue, Place } from './schema-values.ts'

export const HARMS = ['none', 'strained', 'broken'] as const
export type Harm = (typeof HARMS)[number]

/** Longer texts at their limit would make each input a megabyte. */
const LONG_CHARS_MAX = 64 * 1024
const LONG_ITEMS_MAX = 300
const MARK = 'the one part that is replaced'

export function damaged(random: Random, { root, places }: DrawnValue, harm: Harm): string {
  if (harm === 'none') return JSON.stringify(root.value)
  // Places lead nowhere any more where the caller has replaced what was drawn.
  const place = random.pick(places.filter(({ holder, key }) => Object.hasOwn(holder, key)))
  const isListed = Array.isArray(place.holder)
  const isRoot = place.holder === root
  if (harm === 'broken' && !isRoot && !isListed && random.chance(0.15)) {
    Reflect.deleteProperty(place.holder, place.key)
    return JSON.stringify(root.value)
  }
  const own = JSON.stringify(Reflect.get(place.holder, place.key))
  const choices = harm === 'strained' ? strains(random, place, own) : breaks(place, own)
  if (!isRoot && !isListed) choices.push(...besides(place.key, own, harm))
  const text = random.pick(choices)
  Reflect.set(place.holder, place.key, MARK)
  return JSON.stringify(root.value).replace(JSON.stringify(MARK), () => text)
}

/** Further keys behind the place: the last of repeated keys counts. */
function besides(key: string, own: string, harm: Harm): string[] {
  const name = JSON.stringify(key)
  if (harm === 'strained') return [`null,${name}:${own}`]
  return [`${own},${name}:[]`, ...FOREIGN_KEYS.map((foreign) => `${own},${JSON.stringify(foreign)}:{"a":1}`)]
}

const FOREIGN_KEYS = ['surplus', '__proto__', 'constructor', 'prototype', 'toString', '', 'x\u202e\u0000']

// ---- what the schema accepts ---------------------------------------------------------------------------------------

function strains(random: Random, { shape }: Place, own: string): string[] {
  if (shape.const !== undefined || shape.enum !== undefined) return [own, escaped(own)]
  switch (shape.type) {
    case 'string':
      return shape.pattern === undefined ? strainedTexts(shape) : [own, escaped(own)]
    case 'integer':
    case 'number':
      return strainedNumbers(shape, own)
    case 'array':
      return longList(shape.maxItems, own)
    case 'object':
      return shape.properties === undefined && shape.patternProperties === undefined
        ? [own, nested(28), wide(random.pick([10, 2_000]))]
        : [own]
    default:
      return [own]
  }
}

function strainedTexts({ maxLength = 1_000, minLength = 0 }: Place['shape']): string[] {
  const hostile = HOSTILE_TEXTS.filter((text) => text.length >= minLength && text.length <= maxLength)
  const longest = 'y'.repeat(Math.min(maxLength, LONG_CHARS_MAX))
  return [...hostile, longest, 'z'.repeat(minLength)].map((text) => JSON.stringify(text))
}

export const HOSTILE_TEXTS = [
  '\ud800',
  '\udfff\ud800 turned',
  '\u202etxt.exe',
  '\u0000',
  '\u001b]0;title\u0007\u001b[2J',
  '\u2028\u2029',
  '__proto__',
  'constructor',
  'toString',
  '../../../etc/passwd',
  'a/../b',
  '👩‍👩‍👧‍👦'.repeat(9),
  `e${'\u0301'.repeat(60)}`,
  '%00%zz',
  '{{7*7}}',
  "'; drop table runs; --",
  '<script>alert(1)</script>',
  'NaN',
  '-0',
  'a\r\nb: c',
  '***',
]

function strainedNumbers(shape: Place['shape'], own: string): string[] {
  const { type, minimum, exclusiveMinimum, maximum } = shape
  const least = minimum ?? exclusiveMinimum ?? Number.NEGATIVE_INFINITY
  const texts = [`${own.replace(/e.*$/, '')}e0`]
  if (minimum !== undefined) texts.push(String(minimum))
  if (least <= 0 && exclusiveMinimum === undefined) texts.push('-0', '-0.0e5')
  if (maximum !== undefined) texts.push(String(maximum))
  if (maximum === undefined)
    texts.push('1e15', ...(type === 'number' ? ['1e308', '12345678901234567890'] : []))
  if (type === 'number') texts.push('5e-324', '0.1')
  return texts.filter(
    (text) => Number(text) >= least && Number(text) <= (maximum ?? Number.POSITIVE_INFINITY),
  )
}

function longList(maxItems = LONG_ITEMS_MAX, own: string): string[] {
  const [first] = JSON.parse(own) as unknown[]
  const item = JSON.stringify(first)
  const longest = Math.min(maxItems, LONG_ITEMS_MAX, Math.floor(LONG_CHARS_MAX / ((item ?? '').length + 1)))
  return item === undefined ? ['[]'] : [own, `[${Array(longest).fill(item).join()}]`]
}

/** The same text, written with escapes. */
const escaped = (own: string): string =>
  own.startsWith('"') ? own.replace(/[a-z](?=[^\\]*"$)/, (c) => `\\u00${c.charCodeAt(0).toString(16)}`) : own

// ---- what it refuses -----------------------------------------------------------------------------------------------

const OTHER_TYPES = ['null', 'true', '0', '""', '[]', '{}', '1.5', '[null]', '{"type":"x"}']
const NEVER = [
  '1e999',
  '-1e999',
  '123456789012345678901234567890123456789012345678901234567890',
  '-1',
  '1e308',
  '{"__proto__":{"isAdmin":true}}',
  '{"constructor":{"prototype":{"x":1}}}',
  '"\\ud800"',
  'NaN',
  '01',
  "'x'",
  '',
]

function breaks({ shape }: Place, own: string): string[] {
  return [...OTHER_TYPES, ...NEVER, ...beyond(shape, own), ...TOO_MUCH, `${own},`, JSON.stringify(own)]
}

function beyond(
  { type, minimum, maximum, minLength, maxLength, maxItems }: Place['shape'],
  own: string,
): string[] {
  const texts: string[] = []
  if (minimum !== undefined) texts.push(String(minimum - 1), String(minimum - 0.5))
  if (maximum !== undefined) texts.push(`${maximum}9`)
  if (minLength !== undefined && minLength > 0) texts.push(JSON.stringify('y'.repeat(minLength - 1)))
  if (type === 'string') texts.push(JSON.stringify('y'.repeat(Math.min(maxLength ?? 0, LONG_CHARS_MAX) + 1)))
  if (type === 'array' && (maxItems ?? 0) <= LONG_ITEMS_MAX)
    texts.push(
      `[${Array((maxItems ?? 0) + 1)
        .fill(itemOf(own))
        .join()}]`,
    )
  return texts
}

const itemOf = (own: string): string => JSON.stringify((JSON.parse(own) as unknown[])[0]) ?? '""'
const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
const wide = (keys: number): string => `{${Array.from({ length: keys }, (_, key) => `"k${key}":0`).join()}}`

const TOO_MUCH = [nested(33), nested(3_000), wide(10_001)]
