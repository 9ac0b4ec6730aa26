/** The choices of a person for this browser: theme, density, keys, notifications. */
import { signal } from '@preact/signals'
import { keepText, readKeptText } from '../../kept-text.ts'

interface Preferences {
  readonly theme: 'system' | 'light' | 'dark'
  readonly density: 'compact' | 'comfortable'
  /** Whether single letters act. */
  readonly letterKeys: boolean
  readonly notifications: boolean
}

const DEFAULTS: Preferences = {
  theme: 'system',
  density: 'compact',
  letterKeys: true,
  notifications: false,
}

const CHOICES: { readonly [Key in keyof Preferences]: readonly Preferences[Key][] } = {
  theme: ['system', 'light', 'dark'],
  density: ['compact', 'comfortable'],
  letterKeys: [true, false],
  notifications: [true, false],
}

/** The preferences of a text that an older page or anybody at the browser wrote; what is none has its default. */
export function preferencesFrom(kept: string | null): Preferences {
  try {
    const parsed: unknown = JSON.parse(kept ?? '{}')
    if (typeof parsed !== 'object' || parsed === null) return DEFAULTS
    const values: Readonly<Record<string, unknown>> = { ...parsed }
    const choose = <Key extends keyof Preferences>(key: Key): Preferences[Key] =>
      CHOICES[key].find((choice) => choice === values[key]) ?? DEFAULTS[key]
    return {
      theme: choose('theme'),
      density: choose('density'),
      letterKeys: choose('letterKeys'),
      notifications: choose('notifications'),
    }
  } catch {
    return DEFAULTS
  }
}

export const PREFERENCES_KEY = 'switchyard.preferences'

export const readPreferences = (): Preferences => preferencesFrom(readKeptText(PREFERENCES_KEY))

export const preferences = signal<Preferences>(readPreferences())

export function changePreferences(changes: Partial<Preferences>): void {
  preferences.value = { ...preferences.value, ...changes }
  keepText(PREFERENCES_KEY, JSON.stringify(preferences.value))
}
