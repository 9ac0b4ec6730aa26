/** Settings as the page shows them: which belong to a configuration, which differ from their defaults, and what is typed. */
import { readSetting } from '../../../client/settings.ts'
import type { ListedSetting } from '../../../protocol/setting-list.ts'
import { matchWords } from '../shell/match-words.ts'

/** A setting at its place in the configuration. */
export interface PlacedSetting {
  readonly setting: ListedSetting
  /** The key with the name of its repository. */
  readonly key: string
  readonly parts: readonly string[]
  /** Undefined where it is not set. */
  readonly value: unknown
  readonly isChanged: boolean
}

export interface SettingSection {
  readonly name: string
  readonly title: string
  readonly settings: readonly PlacedSetting[]
}

const TITLES: Readonly<Record<string, string>> = {
  server: 'Host',
  fleet: 'Workers of other machines',
  sandbox: 'Sandboxes',
  agent: 'Agents',
  tracker: 'Tracker',
  codehost: 'Code host',
  storage: 'Storage',
  connect: 'Connecting accounts',
  worker: 'The host’s own worker',
  policy: 'Policy',
}

export const REPOS = 'repos'

/** All sections but the repositories, which have a section for each. */
export function sectionsOf(list: readonly ListedSetting[], config: unknown): SettingSection[] {
  const sectionOf = ({ key }: ListedSetting) => key.slice(0, key.indexOf('.'))
  const names = new Set(list.map(sectionOf))
  names.delete(REPOS)
  return [...names].map((name) => ({
    name,
    title: TITLES[name] ?? name,
    settings: list
      .filter((setting) => sectionOf(setting) === name)
      .map((setting) => placeSetting(setting, setting.key.split('.'), config)),
  }))
}

export function repoSectionsOf(list: readonly ListedSetting[], config: unknown): SettingSection[] {
  const settings = list.filter(({ key }) => key.startsWith(`${REPOS}.`))
  const repos = Object.keys(Object(readSetting(config, [REPOS])))
  return repos.map((repo) => ({
    name: `${REPOS}.${repo}`,
    title: repo,
    settings: settings.map((setting) => {
      const parts = setting.key.split('.').map((part) => (part === '*' ? repo : part))
      return placeSetting(setting, parts, config)
    }),
  }))
}

function placeSetting(setting: ListedSetting, parts: readonly string[], config: unknown): PlacedSetting {
  const value = readSetting(config, parts)
  const isChanged = JSON.stringify(value) !== JSON.stringify(setting.default)
  return { setting, key: parts.join('.'), parts, value, isChanged }
}

export interface SettingFilter {
  readonly words: string
  readonly onlyChanged: boolean
}

/** The sections with the settings that the filter leaves; a section without any is left out. */
export function filterSections(
  sections: readonly SettingSection[],
  { words, onlyChanged }: SettingFilter,
): SettingSection[] {
  return sections.flatMap((section) => {
    const settings = section.settings.filter(
      ({ key, setting, isChanged }) =>
        (!onlyChanged || isChanged) &&
        matchWords(`${key} ${section.title} ${setting.meaning}`, words) !== undefined,
    )
    return settings.length === 0 ? [] : [{ ...section, settings }]
  })
}

// ---- values ----------------------------------------------------------------------------------------------------------

/** The text of a field for a value; a group has one for each of its names. */
export function editedText(value: unknown): string {
  if (value === undefined) return ''
  if (Array.isArray(value)) return value.join('\n')
  return typeof value === 'object' ? JSON.stringify(value, undefined, 2) : String(value)
}

/** The value of a text; `null` takes the setting away. A text that is no number is left to the host to refuse. */
export function valueOfText({ kind, isOptional, key }: ListedSetting, text: string): unknown {
  if (kind === 'list') return listOf(text, key, isOptional === true)
  if (text.trim() === '' && isOptional === true) return null
  if (kind === 'lines') return text
  if (kind === 'table') return parseTable(text)
  if (kind === 'switch') return text === 'true'
  const trimmed = text.trim()
  if (kind !== 'number') return trimmed
  return trimmed === '' || Number.isNaN(Number(trimmed)) ? trimmed : Number(trimmed)
}

/** The one list that may be a word instead. */
const WORD_LISTS: Readonly<Record<string, string>> = { 'repos.*.orders': 'writers' }

function listOf(text: string, key: string, isOptional: boolean): unknown {
  const lines = text.split('\n').map((line) => line.trim())
  const entries = lines.filter((line) => line !== '')
  if (entries.length === 0 && isOptional) return null
  return entries.length === 1 && entries[0] === WORD_LISTS[key] ? entries[0] : entries
}

/** A text that is no JSON is left to the host to refuse. */
function parseTable(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A patch keeps what it does not name, so it takes away the rows and columns that are gone from the text. */
export function tablePatch(before: unknown, after: unknown): unknown {
  if (typeof after !== 'object' || after === null) return after
  const gone = Object.keys(Object(before)).filter((name) => !Object.hasOwn(after, name))
  const kept = Object.entries(after).map(([name, row]) => [
    name,
    tablePatch(Reflect.get(Object(before), name), row),
  ])
  return Object.fromEntries([...kept, ...gone.map((name) => [name, null])])
}

/** The value of a group of texts; all of them empty take it away. */
export function valueOfGroup(texts: Readonly<Record<string, string>>): unknown {
  const given = Object.entries(texts).filter(([, text]) => text.trim() !== '')
  return given.length === 0 ? null : Object.fromEntries(given.map(([name, text]) => [name, text.trim()]))
}

/** The value at a dotted key, whose names may hold dots themselves. */
export function valueAt(config: unknown, key: string): unknown {
  if (key === '') return config
  const inner = Object.keys(Object(config)).find((name) => key === name || key.startsWith(`${name}.`))
  return inner === undefined
    ? undefined
    : valueAt(Reflect.get(Object(config), inner), key.slice(inner.length + 1))
}
