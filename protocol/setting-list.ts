/**
 * Every setting with its meaning, default, limits, and what a change of it needs, read from the schema of the
 * configuration.
 *
 * The build puts the finished list into pages in place of this file, because the schema library is large.
 */
import {
  CLIENT_SECRET_PATHS,
  CREDENTIAL_PATHS,
  configDefaults,
  RESTART_PATHS,
  ServiceConfig,
} from './config.ts'
import { asShape, type Shape } from './schema-errors.ts'
import { SETTING_MEANINGS } from './setting-meanings.ts'

export type SettingValueKind =
  | 'text'
  | 'lines'
  | 'number'
  | 'switch'
  | 'choice'
  | 'list'
  | 'group'
  | 'table'
  | 'secret'
  | 'credential'

export interface ListedSetting {
  /** Dotted; `*` stands for the key of a repository. */
  readonly key: string
  readonly meaning: string
  /**
   * `lines`: a text of several lines. `group`: texts that are set together. `table`: rows with names of their own, as
   * JSON. `credential`: only connecting writes it.
   */
  readonly kind: SettingValueKind
  /** The values of a choice, or the names of a group's texts. */
  readonly options?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  /** Completes the message "must be …". */
  readonly expects?: string
  /** Absent where the setting is not set by default. */
  readonly default?: unknown
  /** The setting can be taken away. */
  readonly isOptional?: true
  readonly needsRestart?: true
}

/** Texts that may be longer are scripts and prose of several lines. */
const LINE_CHARS_MAX = 4_096

export const SETTING_LIST: readonly ListedSetting[] = settingsOf(asShape(ServiceConfig), [])

function settingsOf(shape: Shape, path: readonly string[]): ListedSetting[] {
  const { properties = {}, patternProperties = {}, required = [] } = shape
  const fixed = Object.entries(properties).flatMap(([name, field]) => {
    const isOptional = !required.includes(name)
    // A group that can be absent is set as a whole.
    return field.type === 'object' && !isOptional
      ? settingsOf(field, [...path, name])
      : [settingOf(field, [...path, name], isOptional)]
  })
  const named = Object.values(patternProperties).flatMap((field) => settingsOf(field, [...path, '*']))
  return [...fixed, ...named]
}

function settingOf(shape: Shape, path: readonly string[], isOptional: boolean): ListedSetting {
  const key = path.join('.')
  const pointer = `/${path.join('/')}`
  const value: unknown = path.reduce<unknown>((at, part) => Reflect.get(Object(at), part), configDefaults)
  const minimum = shape.minimum ?? shape.exclusiveMinimum
  const { maximum } = shape
  const expects = shape['x-expects'] ?? shape.items?.['x-expects']
  const isRestart = RESTART_PATHS.some((restart) => restart === pointer)
  return {
    key,
    meaning: SETTING_MEANINGS[key] ?? '',
    ...kindOf(shape, pointer),
    ...(minimum === undefined ? {} : { minimum }),
    ...(maximum === undefined ? {} : { maximum }),
    ...(expects === undefined ? {} : { expects }),
    ...(value === undefined ? {} : { default: value }),
    ...(isOptional ? { isOptional } : {}),
    ...(isRestart ? { needsRestart: true } : {}),
  }
}

function kindOf(shape: Shape, pointer: string): Pick<ListedSetting, 'kind' | 'options'> {
  if (CREDENTIAL_PATHS.includes(pointer)) return { kind: 'credential' }
  if (CLIENT_SECRET_PATHS.includes(pointer)) return { kind: 'secret' }
  if (shape.enum !== undefined) return { kind: 'choice', options: shape.enum.map(String) }
  switch (shape.type) {
    case 'boolean':
      return { kind: 'switch' }
    case 'number':
    case 'integer':
      return { kind: 'number' }
    case 'object':
      if (shape.patternProperties !== undefined) return { kind: 'table' }
      return { kind: 'group', options: Object.keys(shape.properties ?? {}) }
    case 'string':
      return { kind: (shape.maxLength ?? 0) > LINE_CHARS_MAX ? 'lines' : 'text' }
    default:
      // A list, or one word that stands for it.
      return { kind: 'list' }
  }
}
