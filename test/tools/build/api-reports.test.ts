/** The API reports of `client/` and `protocol/` say what the code exports, so that a review sees each change. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { clientReport, protocolReport } from '../../../build/api-reports.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const root = join(import.meta.dirname, '..', '..', '..')

test.each([
  ['client/api.txt', () => clientReport(tempFolder())],
  ['protocol/api.txt', protocolReport],
] as const)('%s is up to date (npm run test:update)', async (path, report) => {
  const text = await report()
  if (process.env.UPDATE_EXPECTATIONS === '1') writeFileSync(join(root, path), text)
  expect(text.split('\n')).toEqual(readFileSync(join(root, path), 'utf8').split('\n'))
})
