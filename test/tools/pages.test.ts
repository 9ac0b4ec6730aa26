/** The sizes of the dashboard: what the first load needs, and each part that is loaded later. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { expect, test } from '@jest/globals'
import { firstLoad } from '../../build/pages.mjs'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const folder = join(root, 'dist', 'web', 'dashboard')
const { outputs } = JSON.parse(readFileSync(join(root, 'dist', 'web', 'dashboard.meta.json'), 'utf8'))
const packedKilobytes = (name: string): number =>
  gzipSync(readFileSync(join(folder, name))).byteLength / 1_000

/** Kilobytes of a part and of what only it loads, by the beginning of its name. */
const CEILINGS: Readonly<Record<string, number>> = {
  terminal: 110,
  'render-markdown': 32,
  'chart-drawing': 28,
}
const PART_MAX = 24

test('the first load is at most 45 kB', () => {
  const names = firstLoad({ outputs })
  expect(names.length).toBeGreaterThan(1)
  expect(names.reduce((sum, name) => sum + packedKilobytes(name), 0)).toBeLessThanOrEqual(45)
})

test('no later part is larger than its ceiling', () => {
  const large = readdirSync(join(folder, 'assets'))
    .map((name) => ({ name, size: packedKilobytes(join('assets', name)) }))
    .filter(
      ({ name, size }) =>
        size > (CEILINGS[basename(name).replace(/-[A-Z0-9]{8}\.(js|css)$/, '')] ?? PART_MAX),
    )
  expect(large).toEqual([])
})

test('heavy libraries are loaded only when something needs them', () => {
  const first = new Set(firstLoad({ outputs }))
  const inputs = Object.entries<{ inputs: object }>(outputs)
    .filter(([path]) => first.has(`assets/${basename(path)}`))
    .flatMap(([, output]) => Object.keys(output.inputs))
  const heavy = /node_modules\/(uplot|marked|dompurify|@xterm|typebox|ansi_up|parse-diff)\//
  expect(inputs.filter((input) => heavy.test(input))).toEqual([])
})
