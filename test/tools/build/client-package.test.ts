/** The client as other programs get it: its two bundles, and its declarations in a program of somebody else. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from '@jest/globals'
import { WebSocket } from 'undici'
import { declareClient } from '../../../build/build.mjs'
import type * as browserClient from '../../../client/browser.ts'
import type * as client from '../../../client/client.ts'
import type * as feed from '../../../client/dashboard-feed.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { openTestServer, TOKEN } from '../../support/test-resources.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const bundle = (name: string): string => join(root, 'dist', 'client', `${name}.js`)

test.each(['node', 'browser'])(
  'the bundle for %s needs no package, and for a browser nothing of Node',
  (name) => {
    const imports = [...readFileSync(bundle(name), 'utf8').matchAll(/\b(?:from|import)\s*\(?"([^"]+)"/g)].map(
      ([, from]) => from,
    )
    expect(imports.filter((from) => !from?.startsWith('node:'))).toEqual([])
    if (name === 'browser') expect(imports).toEqual([])
  },
)

test('the browser’s bundle reads routes and frames with fetch and WebSocket put in', async () => {
  const { url } = await openTestServer()
  // The bundle has the types of its sources.
  const built: typeof browserClient & typeof client & typeof feed = await import(
    pathToFileURL(bundle('browser')).href
  )
  const headers = { authorization: `Bearer ${TOKEN}` }
  const connection = built.createBrowserConnection({
    origin: url,
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init?.headers, ...headers } }),
    WebSocket: class extends WebSocket {
      constructor(address: string) {
        super(address, { headers })
      }
    },
  })
  expect(await built.createClient(connection).health()).toMatchObject({ ok: true })
  const first = await new Promise<string>((resolve, reject) => {
    const dashboard = new built.DashboardFeed(connection, {
      onFrame: ({ type }) => {
        dashboard.close()
        resolve(type)
      },
      onEnd: reject,
    })
  })
  expect(first).toBe('hello')
})

test('the declarations check a program of somebody else', () => {
  const folder = tempFolder()
  const installed = join(folder, 'node_modules', 'switchyard')
  mkdirSync(installed, { recursive: true })
  symlinkSync(join(root, 'node_modules', 'typebox'), join(folder, 'node_modules', 'typebox'))
  symlinkSync(join(root, 'node_modules', '@types'), join(folder, 'node_modules', '@types'))
  writeFileSync(join(installed, 'package.json'), readFileSync(join(root, 'package.json')))
  declareClient(join(installed, 'dist', 'client'))
  const settings = {
    ...{ module: 'nodenext', target: 'es2023', strict: true, noEmit: true, types: ['node'] },
    // The declarations of the client are checked, not those of the language.
    skipDefaultLibCheck: true,
  }
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: settings, include: ['*.ts'] }),
  )
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  const programs = {
    'good.ts': 'export const name: string | undefined = run?.ticket.identifier',
    'bad.ts': 'export const name: number | undefined = run?.ticket.identifier',
  }
  for (const [name, line] of Object.entries(programs))
    writeFileSync(
      join(folder, name),
      `import { createClient, dialByNode, sendByNode } from 'switchyard/client'
      const connection = { address: () => ({ url: 'http://127.0.0.1:4400' }), send: sendByNode, dial: dialByNode }
      const [run] = await createClient(connection).listRuns({ limit: 1, status: ['queued'] })
      ${line}`,
    )
  const tsc = join(root, 'node_modules', '.bin', 'tsc')
  const { stdout } = spawnSync(tsc, ['-p', folder, '--pretty', 'false'], { encoding: 'utf8' })
  const found = stdout.split('\n').filter((line) => line.includes('error'))
  expect(found).toEqual([expect.stringMatching(/bad\.ts\(.*'string'/)])
})
