/** `npm run listener:verify` against an upstream repository on this machine. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { closeAfterTest } from '../../support/test-resources.ts'

const root = join(import.meta.dirname, '../../..')
const PACKAGE = join(root, 'node_modules/uWebSockets.js')

interface Verified {
  readonly code: number | string | null
  readonly output: string
}

/** @param change what this release has instead of a file of the package */
async function verify(change: (name: string) => Buffer | undefined, args: readonly string[] = []) {
  const server = createServer((request, response) => {
    const [, tag = '', name = ''] = (request.url ?? '').split('/')
    if (tag === 'tags') return response.end(JSON.stringify([{ name: 'v2' }, { name: 'v1' }]))
    if (tag === 'v2') return response.writeHead(404).end()
    return response.end(change(name) ?? readFileSync(join(PACKAGE, name)))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  closeAfterTest(() => server.close())
  // A server that listens on a port has an address of this kind.
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return new Promise<Verified>((resolve) => {
    const places = ['--tags', `${address}/tags`, '--files', address, ...args]
    execFile(
      process.execPath,
      [join(root, 'build/verify-listener.mjs'), ...places],
      (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : (error.code ?? null), output: stdout + stderr }),
    )
  })
}

test('equal binaries: the release is found by its source commit', async () => {
  const { code, output } = await verify(() => undefined)
  expect(output).toMatch(/^equal {5}uws_linux_x64_115\.node$/m)
  expect(output).toContain('every binary is that of uNetworking/uWebSockets.js v1')
  expect(code).toBe(0)
})

test('another binary is named', async () => {
  const { code, output } = await verify((name) =>
    name === 'uws_linux_x64_137.node' ? Buffer.from('x') : undefined,
  )
  expect(output).toMatch(/^DIFFERENT uws_linux_x64_137\.node$/m)
  expect(output).toContain('1 differ')
  expect(code).toBe(1)
})

test('no release fits, or nothing can be reached', async () => {
  const others = await verify((name) => (name === 'source_commit' ? Buffer.from('f'.repeat(40)) : undefined))
  expect(others).toMatchObject({ code: 69, output: expect.stringContaining('--tag TAG') })
  const nowhere = await verify(() => undefined, ['--tags', 'http://127.0.0.1:9/'])
  expect(nowhere).toMatchObject({ code: 69, output: expect.stringContaining('could not be read') })
})
