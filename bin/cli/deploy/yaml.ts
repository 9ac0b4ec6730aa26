/**
 * Writes plain data as YAML: block mappings and lists, with each text in double quotes unless it is surely a plain word.
 *
 * A text with quotes has JSON's form, which YAML 1.2 contains; every character outside printable ASCII is escaped. So no
 * value can end its line, open a comment or become another type. Keys come from our own code and must be plain words.
 */
export type YamlValue = string | number | boolean | readonly YamlValue[] | YamlMap
export interface YamlMap {
  readonly [key: string]: YamlValue
}

/** Begins with a letter, and holds nothing that YAML gives a meaning. */
const PLAIN = /^[A-Za-z][A-Za-z0-9_./-]*$/
/** Plain words that YAML 1.1 reads as another type. */
const RESERVED = /^(true|false|yes|no|on|off|null|y|n)$/i
const KEY = /^[A-Za-z][A-Za-z0-9_./-]*$/
const INDENT = '  '

/** Several documents in one file, with a comment on top. */
export function formatYamlDocuments(documents: readonly YamlMap[], comment: readonly string[]): string {
  const head = comment.map((line) => (line === '' ? '#\n' : `# ${line}\n`)).join('')
  return head + documents.map((document) => `---\n${formatYaml(document)}`).join('')
}

export function formatYaml(map: YamlMap): string {
  return mapLines(map)
    .map((line) => `${line}\n`)
    .join('')
}

function mapLines(map: YamlMap): string[] {
  return Object.entries(map).flatMap(([key, value]) => {
    if (!KEY.test(key)) throw new Error(`a key of YAML is no plain word: ${JSON.stringify(key)}`)
    return entryLines(`${formatText(key)}:`, value)
  })
}

function entryLines(head: string, value: YamlValue): string[] {
  if (isScalar(value)) return [`${head} ${formatScalar(value)}`]
  if (isEmpty(value)) return [`${head} ${Array.isArray(value) ? '[]' : '{}'}`]
  return [head, ...bodyLines(value).map((line) => INDENT + line)]
}

const bodyLines = (value: readonly YamlValue[] | YamlMap): string[] =>
  isList(value) ? value.flatMap(itemLines) : mapLines(value)

/** The first line of an item stands behind its dash. */
function itemLines(item: YamlValue): string[] {
  if (isScalar(item)) return [`- ${formatScalar(item)}`]
  if (isEmpty(item)) return [isList(item) ? '- []' : '- {}']
  return bodyLines(item).map((line, index) => (index === 0 ? `- ${line}` : INDENT + line))
}

const isList = (value: YamlValue): value is readonly YamlValue[] => Array.isArray(value)
const isScalar = (value: YamlValue): value is string | number | boolean => typeof value !== 'object'
const isEmpty = (value: readonly YamlValue[] | YamlMap): boolean => Object.keys(value).length === 0

function formatScalar(value: string | number | boolean): string {
  if (typeof value === 'number' && !Number.isSafeInteger(value))
    throw new Error(`a number of YAML must be a whole number: ${value}`)
  return typeof value === 'string' ? formatText(value) : String(value)
}

function formatText(text: string): string {
  if (PLAIN.test(text) && !RESERVED.test(text)) return text
  return JSON.stringify(text).replace(/[^\x20-\x7e]/gu, (character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16)
    return code.length > 4 ? `\\U${code.padStart(8, '0')}` : `\\u${code.padStart(4, '0')}`
  })
}
