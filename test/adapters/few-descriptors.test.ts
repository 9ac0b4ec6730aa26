/** Programs that are started while too many files are open: each start answers, and the process lives on. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { runTypeScript } from '../support/child-process.ts'
import { tempFolder } from '../support/temp-folder.ts'

/** Less than the limits of time of the functions, which a start that failed must not leave behind. */
const ENDED_MS_MAX = 15_000

test.each([
  ['code host', /"code":0/],
  ['git', /"output":"git version/],
  ['probe', /"stdout":"ready/],
  ['shell', /"output":"ready/],
  ['program', /"out":"ready/],
])('%s', async (name, success) => {
  const folder = join(tempFolder(), 'bare.git')
  mkdirSync(folder)
  const from = performance.now()
  const child = runTypeScript('test/support/descriptors-child.ts', [name, folder])
  expect({ code: await child.ended, errors: child.errors }).toEqual({ code: 0, errors: [] })
  expect(performance.now() - from).toBeLessThan(ENDED_MS_MAX)
  expect(child.lines).toHaveLength(26)
  expect(child.lines.at(0)).not.toMatch(success)
  expect(child.lines.at(-1)).toMatch(success)
})
