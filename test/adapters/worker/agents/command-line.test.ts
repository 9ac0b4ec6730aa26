/** Tests of the agents' command lines: their text, and their effect in a real sandbox. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { realClock } from '../../../../bin/process/clock.ts'
import type { AgentCommand, AgentTask, LocatedAgent } from '../../../../worker/agents/agent.ts'
import { cleanupLines } from '../../../../worker/agents/agent-a/command.ts'
import { createAgentDrivers } from '../../../../worker/agents/registry.ts'
import { makeLauncher } from '../../../../worker/sandbox/bwrap/launch.ts'
import { createOwnedFolder, removeFolderTree, sandboxUserOf } from '../../../../worker/sandbox/folders.ts'
import { thisMachine } from '../../../../worker/sandbox/local-machine.ts'
import { FIRST_SANDBOX_NUMBER } from '../../../support/sandbox.ts'
import { taskOf } from './recorded-events.ts'

const drivers = createAgentDrivers({ path: '/usr/bin', home: '/root', hasOwnUsers: false })
const kinds = ['agentA', 'agentB', 'agentC'] as const
const found: LocatedAgent = {
  is: 'found',
  program: '/opt/agent/bin/agent',
  readOnlyPaths: ['/opt/agent'],
  path: ['/opt/node/bin'],
}
const KEY = 'sk-ant-api03-0123456789-planted-secret'
const key = { kind: 'api-key', value: KEY } as const
const login = { kind: 'login', value: `{"auth_mode":"chatgpt","tokens":{"access_token":"${KEY}"}}` } as const

const agentOf = (more: Partial<AgentTask['agent']>): AgentTask['agent'] => ({ ...taskOf().agent, ...more })

/** The visible parts of a command: its script, its arguments, and its files without their contents. */
const visibleParts = ({ command, files, stdin, ...rest }: AgentCommand) => ({
  script: command[2]?.split('\n'),
  args: command.slice(4).join(' '),
  files: files.map(({ path, mode }) => `${mode} ${path}`),
  stdin,
  ...rest,
})

describe('the command line', () => {
  test('of agentA', () => {
    const agent = agentOf({ provider: 'agentA', model: 'opus', effort: 'high' })
    const task = taskOf({
      agent,
      credential: key,
      maxTurns: 30,
      maxCostUsd: 2.5,
      environment: { HTTPS_PROXY: 'http://x' },
    })
    expect(visibleParts(drivers.agentA.buildCommand(task, found))).toEqual({
      script: [
        'set -e',
        ...cleanupLines,
        'install -m 0600 /run/agent/settings.json /run/agent/CLAUDE.md /run/agent/.claude.json /home/agent/.claude/',
        'IFS= read -r ANTHROPIC_API_KEY < /run/cred/agent || [ -n "$ANTHROPIC_API_KEY" ]',
        'export ANTHROPIC_API_KEY',
        'exec "$@"',
      ],
      args: '/opt/agent/bin/agent -p --output-format stream-json --verbose --permission-mode bypassPermissions --setting-sources user --strict-mcp-config --session-id 11111111-2222-4333-8444-555555555555 --model opus --effort high --max-turns 30 --max-budget-usd 2.5',
      files: [
        '0400 /run/cred/agent',
        '0444 /run/agent/settings.json',
        '0444 /run/agent/CLAUDE.md',
        '0444 /run/agent/.claude.json',
      ],
      stdin: 'Greet.',
      seeds: [],
      readOnlyPaths: ['/opt/agent'],
      environment: {
        HTTPS_PROXY: 'http://x',
        IS_SANDBOX: '1',
        CLAUDE_CONFIG_DIR: '/home/agent/.claude',
        CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_AUTOUPDATER: '1',
        DISABLE_ERROR_REPORTING: '1',
        DISABLE_TELEMETRY: '1',
        PATH: '/opt/node/bin:/opt/switchyard:/usr/local/bin:/usr/bin:/bin',
      },
    })
  })

  test.each([
    [{ kind: 'oauth-token', value: 'sk-ant-oat01-x' }, 'CLAUDE_CODE_OAUTH_TOKEN'],
    [{ kind: 'api-key', value: ' sk-ant-oat01-x' }, 'CLAUDE_CODE_OAUTH_TOKEN'],
    [{ kind: 'api-key', value: 'sk-ant-api03-x' }, 'ANTHROPIC_API_KEY'],
  ] as const)('agentA gets %j as %s', (credential, variable) => {
    expect(drivers.agentA.buildCommand(taskOf({ credential }), found).command[2]).toContain(
      `export ${variable}\n`,
    )
  })

  test('agentA continues a session instead of starting one', () => {
    const { args } = visibleParts(drivers.agentA.buildCommand(taskOf({ resume: 'aaaa' }), found))
    expect(args).toMatch(/ --resume aaaa$/)
    expect(args).not.toContain('--session-id')
  })

  test('a person can continue only agentA; the end of the key is in memory only', () => {
    const task = { agent: { model: 'opus' }, credential: key, environment: {}, resume: 'aaaa' }
    const made = drivers.agentA.buildTerminalCommand?.(task, found)
    if (made === undefined) throw new Error('nobody goes on with agentA')
    const { command, environment, files, stdin } = made
    expect([drivers.agentB.buildTerminalCommand, drivers.agentC.buildTerminalCommand, stdin]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    expect(command.slice(4).join(' ')).toBe(
      '/opt/agent/bin/agent --resume aaaa --permission-mode bypassPermissions --setting-sources user --strict-mcp-config --model opus',
    )
    expect(environment).toMatchObject({ CLAUDE_CONFIG_DIR: '/dev/shm/claude' })
    expect(command[2]).toContain('ln -s /home/agent/.claude/projects /dev/shm/claude/projects\n')
    const holding = files.filter(({ text }) => text.includes(KEY.slice(-20)))
    expect(holding.map(({ path, mode }) => `${mode} ${path}`)).toEqual([
      '0400 /run/cred/agent',
      '0400 /run/cred/.claude.json',
    ])
    expect(JSON.parse(holding[1]?.text ?? '')).toMatchObject({
      hasCompletedOnboarding: true,
      resumeReturnDismissed: true,
      projects: { '/work': { hasTrustDialogAccepted: true } },
      customApiKeyResponses: { approved: [KEY.slice(-20)], rejected: [] },
    })
    expect(JSON.stringify([command, environment])).not.toContain(KEY.slice(-20))
  })

  test('of agentB, with a key and with a login', () => {
    const agent = agentOf({ provider: 'agentB', model: 'gpt-6-sol', effort: 'low' })
    const records = '/home/agent/.codex-sessions/11111111-2222-4333-8444-555555555555'
    const made = visibleParts(drivers.agentB.buildCommand(taskOf({ agent, credential: key }), found))
    expect(made).toMatchObject({
      script: [
        'set -e',
        'if [ -d /dev/shm/codex ] && [ ! -L /dev/shm/codex ]; then chmod -R u+rwX /dev/shm/codex; fi',
        'if [ -e /dev/shm/codex ] || [ -L /dev/shm/codex ]; then rm -rf /dev/shm/codex; fi',
        'mkdir -p -m 0700 /dev/shm/codex',
        'if [ -d /home/agent/.agents ] && [ ! -L /home/agent/.agents ]; then chmod -R u+rwX /home/agent/.agents; fi',
        'if [ -e /home/agent/.agents ] || [ -L /home/agent/.agents ]; then rm -rf /home/agent/.agents; fi',
        'if [ -L /home/agent/.codex-sessions ]; then rm -f /home/agent/.codex-sessions; fi',
        `if [ -d ${records} ] && [ ! -L ${records} ]; then chmod -R u+rwX ${records}; fi`,
        `if [ -e ${records} ] || [ -L ${records} ]; then rm -rf ${records}; fi`,
        `mkdir -p -m 0700 ${records}`,
        `ln -s ${records} /dev/shm/codex/sessions`,
        'IFS= read -r CODEX_API_KEY < /run/cred/agent || [ -n "$CODEX_API_KEY" ]',
        'export CODEX_API_KEY',
        'exec "$@"',
      ],
      args: '/opt/agent/bin/agent exec --json --skip-git-repo-check -C /work --dangerously-bypass-approvals-and-sandbox -c analytics.enabled=false -c features.plugins=false -c features.apps=false --model=gpt-6-sol -c model_reasoning_effort="low" -',
      files: ['0400 /run/cred/agent'],
    })
    expect(drivers.agentB.buildCommand(taskOf({ credential: login }), found).command[2]).toMatch(
      /\n\(umask 077 && cat \/run\/cred\/agent > \/dev\/shm\/codex\/auth\.json\)\nexec "\$@"$/,
    )
  })

  test('of agentC', () => {
    const agent = agentOf({ provider: 'agentC', model: 'gemini-3.8-flash' })
    const made = drivers.agentC.buildCommand(taskOf({ agent, credential: key }), found)
    expect(visibleParts(made)).toMatchObject({
      args: '/opt/agent/bin/agent --output-format stream-json --yolo --skip-trust --extensions=none --allowed-mcp-server-names=none --model=gemini-3.8-flash',
      files: ['0400 /run/cred/agent', '0444 /run/agent/settings.json'],
      environment: { GOOGLE_GEMINI_BASE_URL: 'https://generativelanguage.googleapis.com' },
    })
    expect(made.files[1]?.text).toContain('"selectedType":"gemini-api-key"')
  })

  test('names the worker’s address where the worker adds the credential', () => {
    const modelApiUrl = 'http://127.0.0.1:61081/v1'
    const made = (kind: (typeof kinds)[number], credential: NonNullable<AgentTask['credential']> = key) =>
      drivers[kind].buildCommand(taskOf({ credential, modelApiUrl }), found)
    expect(made('agentA').environment).toMatchObject({ ANTHROPIC_BASE_URL: modelApiUrl })
    expect(made('agentC').environment).toMatchObject({ GOOGLE_GEMINI_BASE_URL: modelApiUrl })
    const task = { agent: {}, credential: key, environment: {}, resume: 'aaaa', modelApiUrl }
    expect(drivers.agentA.buildTerminalCommand?.(task, found).environment).toMatchObject({
      ANTHROPIC_BASE_URL: modelApiUrl,
    })
    const provider =
      'model_providers.switchyard={name="switchyard",base_url="http://127.0.0.1:61081/v1",wire_api="responses",requires_openai_auth=true,supports_websockets=false}'
    expect(made('agentB').command).toEqual(
      expect.arrayContaining(['-c', provider, '-c', 'model_provider="switchyard"']),
    )
    expect(made('agentB').environment).not.toHaveProperty('CODEX_REFRESH_TOKEN_URL_OVERRIDE')
    // With the login of a plan, Codex contacts addresses of its own for other things than the model.
    expect(made('agentB', login).command).toContain('chatgpt_base_url="http://127.0.0.1:61081/"')
    expect(made('agentB', login).environment).toMatchObject({
      CODEX_REFRESH_TOKEN_URL_OVERRIDE: 'http://127.0.0.1:61081/oauth/token',
    })
  })

  test('a configured command replaces the program and keeps the arguments', () => {
    const agent = agentOf({ provider: 'agentA', command: 'scripted-agent --slow' })
    const made = drivers.agentA.buildCommand(taskOf({ agent }), { is: 'missing', reason: 'not installed' })
    expect(made.command[2]).toMatch(/\nexec scripted-agent --slow "\$@"$/)
    expect(made.command.slice(3, 6)).toEqual(['agent', '-p', '--output-format'])
    expect(made.readOnlyPaths).toEqual([])
    expect(made.environment).not.toHaveProperty('PATH')
  })

  test.each(kinds)('of %s contains no secret and no ticket text', (kind) => {
    for (const credential of [key, login]) {
      const prompt = 'WORDS OF A TICKET; $(touch /tmp/x)'
      const { files, stdin, ...visible } = drivers[kind].buildCommand(taskOf({ credential, prompt }), found)
      expect(JSON.stringify(visible)).not.toMatch(/planted-secret|WORDS/)
      expect(stdin).toBe(prompt)
      const holding = files.filter(({ text }) => text.includes('planted-secret'))
      expect(holding.map(({ path, mode }) => `${mode} ${path}`)).toEqual(['0400 /run/cred/agent'])
    }
  })

  test.each(kinds)('of %s passes any model name as one argument', (kind) => {
    const plainly = drivers[kind].buildCommand(
      taskOf({ agent: { ...taskOf().agent, model: 'm' } }),
      found,
    ).command
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ minLength: 1 }),
          fc.constantFrom('$(id)', '`id`', "'; id; '", '--x', '"\n', '\0'),
        ),
        (model) => {
          const { command } = drivers[kind].buildCommand(
            taskOf({ agent: { ...taskOf().agent, model } }),
            found,
          )
          expect(command).toHaveLength(plainly.length)
          expect(command[2]).toBe(plainly[2])
          expect(command.join('')).not.toContain('\0')
        },
      ),
    )
  })
})

// ---- in a real sandbox -------------------------------------------------------------------------------------------

describe('inside', () => {
  const machine = thisMachine()
  const sandboxUser = sandboxUserOf(FIRST_SANDBOX_NUMBER, machine)
  const launcher = makeLauncher({ bwrap: '/usr/bin/bwrap', clock: realClock })
  let top = ''
  let home = ''
  let work = ''

  beforeAll(() => {
    top = mkdtempSync(join(tmpdir(), 'switchyard-agents-'))
    chmodSync(top, 0o711)
  })
  afterAll(() => rmSync(top, { recursive: true, force: true }))
  beforeEach(async () => {
    for (const folder of [join(top, 'home'), join(top, 'work')]) {
      if (existsSync(folder)) await removeFolderTree(folder)
      expect(await createOwnedFolder(folder, sandboxUser)).toMatchObject({ ok: true })
    }
    home = join(top, 'home')
    work = join(top, 'work')
  })

  async function run(kind: (typeof kinds)[number], script: string, more: Partial<AgentTask> = {}) {
    const agent = {
      provider: kind,
      command: `/bin/sh -c '${script}' stub`,
      model: 'a "$(touch /work/oops)" b',
      instructions: '',
      memories: [],
    }
    const { command, environment, files, stdin } = drivers[kind].buildCommand(taskOf({ agent, ...more }), {
      is: 'missing',
      reason: '',
    })
    const started = launcher.launch({
      user: sandboxUser,
      name: 'agents-test',
      workFolder: work,
      homeFolder: home,
      environment,
      files,
      command,
      maxProcesses: 64,
      ...(stdin === undefined ? {} : { stdin }),
    })
    const texts = await Promise.all(
      [started.stdout, started.stderr].map(async (stream) => (await stream.toArray()).join('')),
    )
    return { end: await started.ended, out: texts[0] ?? '', complaint: texts[1] ?? '' }
  }

  const VARIABLES = {
    agentA: 'ANTHROPIC_API_KEY',
    agentB: 'CODEX_API_KEY',
    agentC: 'GEMINI_API_KEY',
  } as const

  test.each(kinds)(
    '%s has its key, its prompt and its arguments, and a strange name runs nothing',
    async (kind) => {
      const script = `echo "key $${VARIABLES[kind]}"; cat; echo; for word in "$@"; do echo "[$word]"; done; tr "\\\\0" " " </proc/1/environ`
      const { out, complaint, end } = await run(kind, script, { credential: key, prompt: 'Say "hi"\n$(id)' })
      expect({ complaint, code: end.code }).toEqual({ complaint: '', code: 0 })
      expect(out).toContain(`key ${KEY}\nSay "hi"\n$(id)\n[`)
      expect(out).toMatch(/\[(--model=)?a "\$\(touch \/work\/oops\)" b\]/)
      expect(out.split(KEY)).toHaveLength(2)
      expect(existsSync(join(work, 'oops'))).toBe(false)
    },
  )

  test('leftovers of an earlier agentA execution are removed, except its transcripts', async () => {
    const plant = [
      'mkdir -p $HOME/.claude/projects/-work/memory $HOME/.claude/agents/locked',
      'echo "{}" > $HOME/.claude/projects/-work/s.jsonl',
      'for name in settings.json settings.local.json .claude.json .credentials.json agents/x.md projects/-work/memory/MEMORY.md',
      'do rm -f $HOME/.claude/$name; echo planted > $HOME/.claude/$name; done',
      'chmod 000 $HOME/.claude/agents/locked; chmod 500 $HOME/.claude/agents; chmod 500 $HOME/.claude',
    ]
      .join('; ')
      .replace('; do', '\ndo')
    expect(await run('agentA', plant)).toMatchObject({ end: { code: 0 }, complaint: '' })
    const listing = await run(
      'agentA',
      'cd $HOME; grep -r planted . ; find .claude -type f | sort; cat .claude/CLAUDE.md',
    )
    expect(listing).toMatchObject({ end: { code: 0 }, complaint: '' })
    expect(listing.out.split('\n').filter(Boolean)).toEqual([
      '.claude/.claude.json',
      '.claude/CLAUDE.md',
      '.claude/projects/-work/s.jsonl',
      '.claude/settings.json',
      '@/work/CLAUDE.md',
      '@/work/.claude/CLAUDE.md',
    ])
  })

  test("a link in place of agentA's folder is not followed", async () => {
    mkdirSync(join(work, 'elsewhere'))
    writeFileSync(join(work, 'elsewhere', 'kept'), '')
    symlinkSync('/work/elsewhere', join(home, '.claude'))
    if (machine.euid === 0)
      execFileSync('chown', ['-Rh', `${sandboxUser.uid}:${sandboxUser.gid}`, work, home])
    expect(await run('agentA', 'true')).toMatchObject({ end: { code: 0 }, complaint: '' })
    expect(lstatSync(join(home, '.claude')).isDirectory()).toBe(true)
    expect(readdirSync(join(work, 'elsewhere'))).toEqual(['kept'])
  })

  test.each([
    [
      'agentB',
      'cat /dev/shm/codex/auth.json; stat -c %a /dev/shm/codex/auth.json; echo note > /dev/shm/codex/sessions/note',
    ],
    [
      'agentC',
      'cat $HOME/.gemini/oauth_creds.json; stat -c %a $HOME/.gemini/oauth_creds.json; grep -o oauth-personal $HOME/.gemini/settings.json',
    ],
  ] as const)('a login of %s is where it looks for it, and never on the disk', async (kind, script) => {
    const { out, complaint } = await run(kind, `${script}; echo planted > $HOME/.note`, { credential: login })
    expect(complaint).toBe('')
    expect(out).toContain(`${login.value}600\n`)
    const grep = (word: string) =>
      execFileSync('sh', ['-c', `grep -rl ${word} ${home} ${work} || true`], { encoding: 'utf8' })
    expect(grep('planted-secret')).toBe('')
    expect(grep('planted')).toContain('.note')
    if (kind === 'agentB') {
      const records = join(home, '.codex-sessions', '11111111-2222-4333-8444-555555555555', 'note')
      expect(readFileSync(records, 'utf8')).toBe('note\n')
    }
  })
})
