/** Preferences: what a browser has kept is checked, and each value that is none has its default. */
import { expect, test } from '@jest/globals'
import { preferencesFrom } from '../../../web/dashboard/state/preferences.ts'

const DEFAULTS = { theme: 'system', density: 'compact', letterKeys: true, notifications: false }

test.each([[null], ['null'], ['3'], ['"dark"'], ['["dark"]'], ['{'], ['{}']])(
  '%s is no preferences',
  (kept) => {
    expect(preferencesFrom(kept)).toEqual(DEFAULTS)
  },
)

test('each value is kept when it is a choice, and nothing else is', () => {
  const chosen = { theme: 'dark', density: 'comfortable', letterKeys: false, notifications: true }
  expect(preferencesFrom(JSON.stringify({ ...chosen, old: 1 }))).toEqual(chosen)
  const garbage = { theme: 'sepia', density: 7, letterKeys: 'no', notifications: true }
  expect(preferencesFrom(JSON.stringify(garbage))).toEqual({ ...DEFAULTS, notifications: true })
})
