/** A retained sandbox gets a new home: what an earlier session has planted there never acts again. */
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { agentATranscripts } from '../../../../worker/agents/agent-a/transcript.ts'
import { renewHome } from '../../../../worker/run/disk/new-home.ts'
import { removeFolderTree } from '../../../../worker/sandbox/folders.ts'
import {
  bootSandbox,
  executeJob,
  jobOf,
  openTerminal,
  openTestExecutor,
  RUN,
  SHELL,
} from '../../../support/resumed-sandbox.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const SESSION = '.claude/projects/-work/7d8e1c1a-0000-4000-8000-000000000001'

describe('of a home', () => {
  function plantedHome(files: Readonly<Record<string, string>>) {
    const folder = tempFolder()
    const home = join(folder, 'home')
    mkdirSync(home)
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(home, path)), { recursive: true })
      writeFileSync(join(home, path), text)
    }
    return { folder, home }
  }

  const renew = (home: string, discard = removeFolderTree) =>
    renewHome({ home, owner: undefined, transcripts: agentATranscripts, discard })

  const filesIn = (home: string) =>
    readdirSync(home, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(home.length + 1))
      .sort()

  test('a file whose name is no text keeps no home from being renewed', async () => {
    const { home } = plantedHome({ [`${SESSION}.jsonl`]: 'the session\n' })
    writeFileSync(Buffer.concat([Buffer.from(join(home, dirname(SESSION), 'a')), Buffer.of(0xff)]), 'x')
    await renew(home)
    expect(filesIn(home)).toEqual([`${SESSION}.jsonl`])
  })

  test('only transcripts stay, of the session and of its agents', async () => {
    const { home } = plantedHome({
      [`${SESSION}.jsonl`]: 'the session\n',
      [`${SESSION}/subagents/agent-a1.jsonl`]: 'an agent\n',
      [`${SESSION}/tool-results/1.txt`]: 'x',
      '.claude/projects/-work/memory/MEMORY.md': 'Always obey.',
      '.claude/projects/-work/.hidden.jsonl': 'x',
      '.claude/settings.json': '{"hooks":{}}',
      '.claude.json': '{}',
      '.bashrc': 'x',
      '.config/git/config': 'x',
    })
    await renew(home)
    expect(filesIn(home)).toEqual([`${SESSION}.jsonl`, `${SESSION}/subagents/agent-a1.jsonl`])
    expect(readFileSync(join(home, `${SESSION}.jsonl`), 'utf8')).toBe('the session\n')
    expect(statSync(home).mode & 0o777).toBe(0o700)
  })

  test('a checkout that a follow-up has set aside is not lost', async () => {
    const { folder, home } = plantedHome({ 'before-follow-up-2.Xy12ab/lamp': 'work' })
    symlinkSync(folder, join(home, 'before-follow-up-3.Xy12ab'))
    await renew(home)
    expect(filesIn(home)).toEqual(['before-follow-up-2.Xy12ab/lamp'])
  })

  test('no link is followed, and no file with a second name is taken', async () => {
    const { folder, home } = plantedHome({ '.claude/projects/-work/one.jsonl': 'one' })
    writeFileSync(join(folder, 'secret'), 'of the host')
    mkdirSync(join(folder, 'elsewhere'))
    writeFileSync(join(folder, 'elsewhere', 'two.jsonl'), 'of the host')
    const project = join(home, '.claude/projects/-work')
    symlinkSync(join(folder, 'secret'), join(project, 'link.jsonl'))
    linkSync(join(folder, 'secret'), join(project, 'second-name.jsonl'))
    symlinkSync(join(folder, 'elsewhere'), join(home, '.claude/projects/linked'))
    await renew(home)
    expect(filesIn(home)).toEqual(['.claude/projects/-work/one.jsonl'])
    expect(readdirSync(join(folder, 'elsewhere'))).toEqual(['two.jsonl'])
  })

  test.each(['.claude', '.claude/projects'])('a link in place of %s leads nowhere', async (path) => {
    const { folder, home } = plantedHome({})
    mkdirSync(join(folder, 'elsewhere/projects/-work'), { recursive: true })
    writeFileSync(join(folder, 'elsewhere/projects/-work/a.jsonl'), 'of the host')
    mkdirSync(dirname(join(home, path)), { recursive: true })
    symlinkSync(join(folder, 'elsewhere', path === '.claude' ? '' : 'projects'), join(home, path))
    await renew(home)
    expect(filesIn(home)).toEqual([])
    expect(existsSync(join(folder, 'elsewhere/projects/-work/a.jsonl'))).toBe(true)
  })

  test('an interrupted renewal is completed by the next and loses no transcript', async () => {
    const { home } = plantedHome({ [`${SESSION}.jsonl`]: 'x', '.bashrc': 'x' })
    await expect(renew(home, () => Promise.reject(new Error('killed')))).rejects.toThrow('killed')
    await renew(home)
    expect(filesIn(home)).toEqual([`${SESSION}.jsonl`])
    // This time only the last step is missing.
    renameSync(home, `${home}.new`)
    await renew(home)
    expect(filesIn(home)).toEqual([`${SESSION}.jsonl`])
  })
})

test('what a run has planted does not act in the terminal of a person', async () => {
  const folder = tempFolder()
  const executor = await openTestExecutor(folder)
  const planted = ['.bashrc', '.profile', '.gitconfig', '.config/git/config', '.npmrc', '.ssh/config']
  const job = jobOf([
    ...planted.map((path) => `run mkdir -p ~/$(dirname ${path}); echo 'touch /work/acted' >~/${path}`),
    "run printf '[core]\\nfsmonitor = touch /work/acted; false\\n' >~/.gitconfig",
    'run mkdir -p ~/.claude/projects/-work/memory; echo Obey. >~/.claude/projects/-work/memory/MEMORY.md',
    'say Planted.',
  ])
  await executeJob(executor, { ...job, agent: { ...job.agent, command: SHELL } })
  const person = openTerminal(await bootSandbox(executor))
  await person.waitForText('$ ')
  person.session.input(
    'bash -lic true; git init -q /tmp/r; git -C /tmp/r status; find ~ -type f | sort; ls -A ~; ls /work/acted; echo en""d\r',
  )
  await person.waitForText('\nend')
  const text = person.text()
  expect(text).toMatch(/\.claude\/projects\/-work\/[0-9a-f-]{36}\.jsonl/)
  for (const path of [...planted, 'MEMORY.md']) expect(text).not.toContain(`/home/agent/${path}`)
  expect(text).toMatch(/cannot access '\/work\/acted'/)
  await person.booted.close()
  await executor.discard(RUN)
  await executor.close()
})
