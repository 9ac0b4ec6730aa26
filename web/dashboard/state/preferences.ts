/** The choices of a person for this browser: theme, density, keys, notifications. */
import { effect, signal } from '@preact/signals'

export interface Preferences {
  readonly theme: 'system' | 'light' | 'dark'
  readonly density: 'compact' | 'comfortable'
  /** Whether single letters act. */
  readonly letterKeys: boolean
  readonly notifications: boolean
}

export const PREFERENCES_KEY = 'switchyard.preferences'
const DEFAULTS: Preferences = { theme: 'system', density: 'compact', letterKeys: true, notifications: false }

export function readPreferences(): Preferences {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(PREFERENCES_KEY) ?? '{}') }
  } catch {
    return DEFAULTS
  }
}

export const preferences = signal<Preferences>(readPreferences())

export function changePreferences(changes: Partial<Preferences>): void {
  preferences.value = { ...preferences.value, ...changes }
}

/** Applies theme and density to the document, now and after each change. */
export function startPreferences(): void {
  effect(() => {
    const { theme, density } = preferences.value
    const { dataset } = document.documentElement
    if (theme === 'system') delete dataset.theme
    else dataset.theme = theme
    dataset.density = density
    localStorage.setItem(PREFERENCES_KEY, JSON.stringify(preferences.value))
  })
}
