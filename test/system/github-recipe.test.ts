/** The recipe for GitHub issues and Claude Code is true: its settings exist, and its commands do what it says. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import { readConfig } from '../../core/settings/read.ts'
import { ServiceConfig, type StoredConfig } from '../../protocol/config.ts'
import type { Run } from '../../protocol/run.ts'
import { installedPath } from '../support/command-process.ts'
import { SYSTEM_WAIT_MS_MAX } from '../support/dashboard-client.ts'
import { OWNER, ProviderSystem } from '../support/system-with-providers.ts'
import { until } from '../support/until.ts'

const recipe = readFileSync(new URL('../../docs/github-and-claude.md', import.meta.url), 'utf8')
const blocksIn = (language: string): string[] =>
  [...recipe.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))].map(([, block = '']) => block)
const jsonBlocks = blocksIn('json')
const [connectAccounts = '', previewAndResume = ''] = blocksIn('bash')

test.each(jsonBlocks)('the configuration is accepted: %s', (block) => {
  expect(readConfig(block)).toMatchObject({ ok: true })
})

test('every setting that the recipe names exists', () => {
  const sections = Object.keys(ServiceConfig.properties).join('|')
  const named = [...recipe.matchAll(new RegExp(`\`((?:${sections})\\.[A-Za-z.]+)\``, 'g'))].map(
    ([, path = '']) => path,
  )
  expect(named.length).toBeGreaterThan(5)
  expect(named.filter((path) => !isSetting(path)).filter((path) => !path.endsWith('.json'))).toEqual([])
})

function isSetting(path: string): boolean {
  let at: unknown = ServiceConfig
  for (const key of path.split('.')) at = Object(Object(at).properties)[key]
  return at !== undefined
}

test('nothing starts before the resume, and an issue of the selected label becomes a pull request', async () => {
  const { policy, tracker }: StoredConfig = JSON.parse(jsonBlocks[0] ?? '')
  const system = await ProviderSystem.open({ ...(policy && { policy }), ...(tracker && { tracker }) })
  const confirm = ['tracker.apiUrl']
  await system.send('PUT', '/api/settings', { patch: { tracker: { apiUrl: null } }, confirm })
  const { github } = system
  github.addToken(OWNER, { value: 'ghp_mona', scopes: ['repo', 'workflow'] })
  const body = ['Please.', '```switchyard', 'write a.txt', '  A', 'commit Say hello', '```', ''].join('\n')
  const add = (...labels: string[]) =>
    github.addIssue('acme/app', { title: 'Say hello', body, author: OWNER, labels })
  const [chosen] = [add('Todo', 'urgent'), add('bug')]
  // The fake provider lives in this process, so a command must not block it.
  const bash = async (script: string): Promise<string> => {
    const env = { ...process.env, PATH: installedPath(), SWITCHYARD_DATA_DIR: system.dataDir }
    const started = promisify(execFile)('bash', ['-c', script], { env })
    started.child.stdin?.end('ghp_mona\n')
    return (await started).stdout
  }
  const [connectCodeHost = ''] = /^switchyard connect codehost/m.exec(connectAccounts) ?? []
  expect(await bash(`${connectCodeHost} --token`)).toContain('codehost connected')
  const runs = () => system.get<readonly Run[]>('/api/runs')
  await until('the run is queued', async () => (await runs()).length > 0, SYSTEM_WAIT_MS_MAX)
  expect(await runs()).toMatchObject([
    { status: 'queued', queueReason: 'paused', ticket: { id: 'acme/app#1', priority: 1 } },
  ])
  expect(chosen.labels).toEqual(['Todo', 'urgent'])
  expect(await bash(previewAndResume)).toMatch(/app#1[\s\S]*resumed/)
  await until('it is completed', async () => (await runs())[0]?.status === 'completed', SYSTEM_WAIT_MS_MAX)
  await until('it is in review', () => chosen.labels.includes('In Review'), SYSTEM_WAIT_MS_MAX)
  expect(github.pull('acme/app', 3).body).toContain('Closes #1')
  expect(await runs()).toHaveLength(1)
}, 300_000)
