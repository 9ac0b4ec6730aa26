/** By which user's number a host within the machine is known to its clients and workers. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { connectToHost } from '../../../bin/process/host-connection.ts'
import { noteHost } from '../../../bin/programs/worker/own-worker.ts'
import { findUser, hostUserMark } from '../../../client/peer-owner.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { TOKEN } from '../../support/test-resources.ts'

const HOST = 'http://127.0.0.1:4400'

test('a host marks itself with its user’s number, and as root with nothing', () => {
  expect([hostUserMark(1234), hostUserMark(0)]).toEqual([{ hostUser: '1234' }, {}])
})

test.each([
  ['daemon', String(findUser('daemon'))],
  ['1234', '1234'],
  ['nobody-of-this-name', 'nobody-of-this-name'],
])('a worker keeps the user of its host as a number where it knows one: %s', async (hostUser, kept) => {
  const dataDir = tempFolder()
  await noteHost(dataDir, { host: HOST, hostUser })
  expect(JSON.parse(readFileSync(join(dataDir, 'host.json'), 'utf8'))).toEqual({ host: HOST, hostUser: kept })
})

test('a command that another one starts knows the user of the same host', async () => {
  const env: NodeJS.ProcessEnv = { SWITCHYARD_URL: HOST, SWITCHYARD_TOKEN: TOKEN, SWITCHYARD_HOST_USER: '1' }
  const { owner } = await connectToHost(tempFolder(), env, '1234').address()
  expect([owner?.users[0], env.SWITCHYARD_HOST_USER, env.SWITCHYARD_TOKEN]).toEqual([1234, '1234', undefined])
})
