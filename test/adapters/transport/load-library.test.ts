/** The binary of the native listener is loaded only with its known hash, and every other case names its reason. */
import { createHash } from 'node:crypto'
import { copyFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { readListenerBinaries } from '../../../build/listener-binaries.mjs'
import { chooseListener, describeListener } from '../../../transport/choose-listener.ts'
import { BINARY_HASHES } from '../../../transport/native/binary-hashes.ts'
import { binaryName, loadNativeLibrary, type NativePlatform } from '../../../transport/native/load-library.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const PACKAGE = 'node_modules/uWebSockets.js'
const { platform, arch, versions } = process
const thisMachine: NativePlatform = { platform, arch, modules: versions.modules, node: versions.node }

/** A folder with a copy of a binary. */
function folderWith(name: string): { readonly folder: string; readonly file: string } {
  const folder = tempFolder()
  const file = join(folder, name)
  copyFileSync(join(PACKAGE, name), file)
  return { folder, file }
}

test('each supported platform and Node has the hash of the binary in the package', () => {
  for (const [name, hash] of Object.entries(BINARY_HASHES))
    expect([
      name,
      createHash('sha256')
        .update(readFileSync(join(PACKAGE, name)))
        .digest('hex'),
    ]).toEqual([name, hash])
  for (const on of ['linux_x64', 'linux_arm64', 'darwin_x64', 'darwin_arm64'])
    for (const modules of ['115', '127', '137'])
      expect(BINARY_HASHES).toHaveProperty([`uws_${on}_${modules}.node`])
})

test('an altered binary is not loaded, and its file is named', () => {
  const { folder, file } = folderWith(binaryName(thisMachine))
  const bytes = readFileSync(file)
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1
  writeFileSync(file, bytes)
  const choice = chooseListener(folder, thisMachine)
  expect(choice).toMatchObject({ listener: { name: 'node' }, alteredFile: file })
  expect(describeListener(choice)).toMatch(/^node:http \(.* altered: \/.*\.node\)$/)
  truncateSync(file)
  expect(chooseListener(folder, thisMachine)).toMatchObject({ alteredFile: file })
})

test('a missing binary, a Node without one, and a binary that does not load are told apart', () => {
  expect(loadNativeLibrary(tempFolder(), thisMachine)).toEqual({
    ok: false,
    reason: expect.stringMatching(/^\/.*\.node can't be read$/),
  })
  expect(loadNativeLibrary(PACKAGE, { ...thisMachine, modules: '141', node: '25.1.0' })).toEqual({
    ok: false,
    reason: expect.stringMatching(/no build for Node 25\.1\.0 on \w+-\w+$/),
  })
  const { folder, file } = folderWith(binaryName(thisMachine))
  writeFileSync(file, 'no library')
  const known = { [binaryName(thisMachine)]: createHash('sha256').update('no library').digest('hex') }
  expect(loadNativeLibrary(folder, thisMachine, known)).toEqual({
    ok: false,
    reason: expect.stringMatching(/^the native listener does not load: /),
  })
})

test('the build takes this platform’s binaries, and stops at an altered one', async () => {
  const names = (await readListenerBinaries()).map(({ name }) => name)
  expect(names).toEqual(['115', '127', '137'].map((modules) => binaryName({ ...thisMachine, modules })))
  const folder = tempFolder()
  for (const name of names) copyFileSync(join(PACKAGE, name), join(folder, name))
  truncateSync(join(folder, binaryName(thisMachine)), 100)
  await expect(readListenerBinaries({ folder })).rejects.toThrow(/is not the released binary/)
  expect(await readListenerBinaries({ platform: 'sunos' })).toEqual([])
})
