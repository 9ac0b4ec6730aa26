/** Tests of the look for agents: what is found, in which version, and whether there is a login, on a real disk. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { type ProbedProgram, probeAgent, probeAgents } from '../../../../worker/agents/locate-agent.ts'
import { createAgentDrivers } from '../../../../worker/agents/registry.ts'

const AGENT: ProbedProgram = {
  program: 'agent',
  installCommand: 'npm install agent',
  loginFiles: ['.agent/login.json'],
  loginVariables: ['AGENT_KEY'],
}
/** Not below /tmp, which a sandbox mounts itself. */
let home = ''

beforeEach(() => {
  home = join(mkdtempSync('/var/tmp/switchyard-probe-'), 'me')
  mkdirSync(home)
})
afterEach(() => rmSync(dirname(home), { recursive: true, force: true }))

function file(path: string, text = 'ELF'): string {
  const whole = join(home, path)
  mkdirSync(dirname(whole), { recursive: true })
  writeFileSync(whole, text)
  chmodSync(whole, 0o755)
  return whole
}

const probe = (folder: string, environment = {}) =>
  probeAgent(AGENT, { path: join(home, folder), home, hasOwnUsers: false, environment })

test('a missing agent is reported with the command that installs it', async () => {
  expect(await probe('bin')).toEqual({
    found: false,
    loggedIn: false,
    problem: expect.stringContaining('npm install agent'),
  })
})

test('the version is that of the npm package', async () => {
  file('lib/node_modules/@x/agent/package.json', '{"name":"@x/agent","version":"2.1.7"}')
  file('lib/node_modules/@x/agent/dist/cli.js')
  mkdirSync(join(home, 'bin'))
  symlinkSync('../lib/node_modules/@x/agent/dist/cli.js', join(home, 'bin', 'agent'))
  expect(await probe('bin')).toEqual({ found: true, loggedIn: false, version: '2.1.7' })
})

test('the version is in the path of the vendor’s installer', async () => {
  file('share/versions/2.0.14')
  mkdirSync(join(home, 'bin'))
  symlinkSync('../share/versions/2.0.14', join(home, 'bin', 'agent'))
  expect(await probe('bin')).toMatchObject({ found: true, version: '2.0.14' })
})

test('a plain program has no known version', async () => {
  file('bin/agent', '#!/bin/sh\n')
  expect(await probe('bin')).toEqual({ found: true, loggedIn: false })
})

test('a login is a file below the home folder or a variable', async () => {
  expect(await probe('bin', { AGENT_KEY: 'x' })).toMatchObject({ loggedIn: true })
  file('.agent/login.json')
  expect(await probe('bin')).toMatchObject({ loggedIn: true })
})

test('every agent is looked for', async () => {
  const agents = await probeAgents(createAgentDrivers({ path: '/nowhere', home, hasOwnUsers: false }))
  expect(Object.keys(agents)).toEqual(['agentA', 'agentB', 'agentC'])
})
