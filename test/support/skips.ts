/**
 * Tests that this machine or this round can't run. The reason stands at the end of a skipped test's name, so that the
 * test command can list it, and fail in CI for a reason that `test/skips-in-ci.json` does not name.
 */
import { describe, test } from '@jest/globals'

type AddTest = (name: string, body: () => void | Promise<void>, timeoutMs?: number) => void

export const withReason = (name: string, reason: string): string => `${name} (skipped: ${reason})`

export function testIf(condition: boolean, reason: string): AddTest {
  if (condition) return test
  return (name, body, timeoutMs) => test.skip(withReason(name, reason), body, timeoutMs)
}

export function describeIf(condition: boolean, reason: string): (name: string, body: () => void) => void {
  if (condition) return describe
  return (name, body) => describe.skip(withReason(name, reason), body)
}

/** Root can change users and mount file systems. */
export const isRoot = process.geteuid?.() === 0
export const testAsRoot = testIf(isRoot, 'needs root')
