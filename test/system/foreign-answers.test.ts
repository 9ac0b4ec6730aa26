/** A program of one's own that is no host has the host's port: each command says so in a sentence. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from '@jest/globals'
import { runCommand } from '../support/command-process.ts'
import { killedHost } from '../support/foreign-program.ts'
import { closeAfterTest, TOKEN } from '../support/test-resources.ts'

const COMMANDS = [
  'status',
  'runs',
  'runs show x',
  'logs x',
  'start Hello',
  'tickets',
  'workers',
  'workers pair',
  'connect',
  'config get',
  'memories',
  'costs',
  'pulls',
  'explain x',
  'cancel x --yes',
  'doctor',
]
const LISTS = /^GET \/api\/(runs|tickets|runs\/[^/]+\/events)(\?|$)/
const KEYS =
  'ticket status agent config results items gates number run workers token expiresAt ok state pulls repos identifier index'
/** Has the key by which a client tells an answer of a host, and nothing else that is right. */
const asIfOfHost = (value: unknown): object => Object.fromEntries(KEYS.split(' ').map((key) => [key, value]))

test.each<[string, unknown]>([
  ['nothing', null],
  ['a list', []],
  ['a text', 'x'],
  ['an empty object', {}],
  ['what only looks like a host’s', asIfOfHost(null)],
  ['what only looks like a host’s, deeper', asIfOfHost([{}])],
])(
  'a program that answers %s is named in a sentence, without a place in the code',
  async (_, answer) => {
    const server = createServer(({ method, url = '' }, reply) => {
      const isList = LISTS.test(`${method} ${url}`) && typeof answer === 'object' && !Array.isArray(answer)
      reply.setHeader('content-type', 'application/json')
      reply.end(JSON.stringify(isList && answer !== null ? [answer] : answer))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closeAfterTest(() => server.close())
    const dataDir = killedHost(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, TOKEN)
    for (const command of COMMANDS) {
      const process = runCommand([...command.split(' '), '--data-dir', dataDir])
      const code = await process.exit
      expect([command, code]).not.toEqual([command, 70])
      expect([command, process.err()]).not.toEqual([command, expect.stringMatching(/^ +at |TypeError/m)])
    }
  },
  120_000,
)
