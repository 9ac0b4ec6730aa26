/** A worker's comments on a pull request, found by content in conversations of any length. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import type { CodeHost } from '../../../../core/ports/code-host.ts'
import { createLocalCodeHost } from '../../../../providers/codehost/local/code-host.ts'
import { createCodeHost } from '../../../../providers/codehost/registry.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const REMOTE = 'ada/lamps'
const MARKER = '<!-- switchyard:follow-up fu-1 -->'

describe('a folder', () => {
  function folder() {
    const path = tempFolder()
    const pulls = join(path, 'ada/lamps.pulls')
    mkdirSync(pulls, { recursive: true })
    const file = join(pulls, '7.json')
    const pull = { number: 7, title: 'Mend', state: 'open', baseBranch: 'main', headBranch: 'mend' }
    writeFileSync(file, JSON.stringify(pull))
    return {
      pulls,
      host: createLocalCodeHost({ path, clock: realClock }),
      read: () => JSON.parse(readFileSync(file, 'utf8')),
    }
  }

  test('a comment appears with switchyard as its author', async () => {
    const { host, read } = folder()
    expect(await host.hasComment(REMOTE, 7, MARKER)).toEqual({ ok: true, value: false })
    expect(await host.comment(REMOTE, 7, `Done.\n\n${MARKER}`)).toEqual({ ok: true, value: undefined })
    expect(await host.hasComment(REMOTE, 7, MARKER)).toEqual({ ok: true, value: true })
    expect(read().comments).toMatchObject([{ author: 'switchyard', body: `Done.\n\n${MARKER}` }])
  })

  test('concurrent comments are all kept', async () => {
    const { host, read } = folder()
    const bodies = ['a', 'b', 'c', 'd', 'e']
    await Promise.all(bodies.map((body) => host.comment(REMOTE, 7, body)))
    const made = read().comments as { id: string; body: string }[]
    expect(made.map(({ body }) => body).sort()).toEqual(bodies)
    expect(new Set(made.map(({ id }) => id)).size).toBe(5)
  })

  test('duplicates of a comment are removed, and nothing else', async () => {
    const { host, read, pulls } = folder()
    const ours = `Done.\n\n${MARKER}`
    const commentOf = (id: string, author: string, body: string) => ({
      id,
      author,
      body,
      createdAt: '2026-03-01T08:00:00.000Z',
      url: 'https://x.example',
    })
    const comments = [
      commentOf('c1', 'ada', 'Hello'),
      commentOf('c2', 'switchyard', ours),
      commentOf('c3', 'ada', ours),
      commentOf('c4', 'switchyard', `${ours}\n`),
      commentOf('c5', 'switchyard', `> ${MARKER}`),
      commentOf('c6', 'switchyard', `Again.\n\n${MARKER}`),
    ]
    writeFileSync(join(pulls, '7.json'), JSON.stringify({ ...read(), comments }))
    expect(await host.dropRepeats(REMOTE, 7, `\n${MARKER}`)).toEqual({ ok: true, value: 2 })
    expect(read().comments.map(({ id }: { id: string }) => id)).toEqual(['c1', 'c2', 'c3', 'c5'])
    expect(await host.dropRepeats(REMOTE, 7, `\n${MARKER}`)).toEqual({ ok: true, value: 0 })
    expect(await host.dropRepeats(REMOTE, 8, MARKER)).toMatchObject({ refusal: { kind: 'unknown' } })
  })

  test('a missing pull request gets no comment', async () => {
    const { host, pulls } = folder()
    expect(await host.comment(REMOTE, 8, 'x')).toMatchObject({ refusal: { kind: 'unknown' } })
    expect(await host.hasComment(REMOTE, 8, 'x')).toMatchObject({ refusal: { kind: 'unknown' } })
    expect(await host.comment('../lamps', 7, 'x')).toMatchObject({ refusal: { kind: 'invalid' } })
    expect(existsSync(join(pulls, '8.json'))).toBe(false)
  })
})

describe('GitHub', () => {
  const open: (() => Promise<void>)[] = []
  afterEach(async () => {
    for (const close of open.splice(0)) await close()
  })

  /** Serves a conversation in pages, oldest first. */
  async function github(pages: readonly (readonly (string | object)[])[], status?: number, drops = 204) {
    const asked: string[] = []
    const server = createServer((request, response) => {
      const url = new URL(request.url ?? '', 'http://here')
      const page = Number(url.searchParams.get('page') ?? 1)
      asked.push(`${request.method} ${url.pathname}${request.method === 'GET' ? ` ${page}` : ''}`)
      let body = ''
      request.on('data', (part) => (body += part))
      request.on('end', () => {
        if (request.method === 'POST') asked.push(body)
        const last = `<http://elsewhere/x?per_page=50&page=${pages.length}>; rel="last"`
        const link =
          pages.length > 1 && page < pages.length
            ? { link: `<http://elsewhere/x?page=2>; rel="next", ${last}` }
            : {}
        const usual = { POST: 201, DELETE: drops }[request.method ?? ''] ?? 200
        response.writeHead(status ?? usual, link)
        const comments = (pages[page - 1] ?? []).map((comment) =>
          typeof comment === 'string' ? { id: 1, body: comment } : comment,
        )
        response.end(JSON.stringify(comments))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const http = createHttp({ clock: realClock, random: realRandom })
    open.push(() => http.close())
    open.push(() => new Promise((resolve) => server.close(() => resolve())))
    const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const made = createCodeHost({ driver: 'github', apiUrl }, 'ghp_secret', { http, clock: realClock })
    if (!made.ok) throw new Error(made.refusal.message)
    const host: CodeHost = made.value
    return { host, asked }
  }

  const PATH = '/repos/ada/lamps/issues/7/comments'

  test.each<[string, string[][], string, boolean, string[]]>([
    ['the only page', [['a', `x ${MARKER}`]], MARKER, true, ['1']],
    ['no page', [[]], MARKER, false, ['1']],
    ['the last page', [['a'], ['b'], [MARKER]], MARKER, true, ['1', '3']],
    ['a page between', [['a'], [MARKER], ['c']], MARKER, true, ['1', '3', '2']],
    ['none of them', [['a'], ['b'], ['c']], MARKER, false, ['1', '3', '2']],
  ])(
    'the search begins at the newest comment and finds the text on %s',
    async (_, pages, text, value, read) => {
      const { host, asked } = await github(pages)
      expect(await host.hasComment(REMOTE, 7, text)).toEqual({ ok: true, value })
      expect(asked).toEqual(read.map((page) => `GET ${PATH} ${page}`))
    },
  )

  test('only the newest part of an endless conversation is searched', async () => {
    const { host, asked } = await github(Array.from({ length: 400 }, () => ['a']))
    expect(await host.hasComment(REMOTE, 7, MARKER)).toEqual({ ok: true, value: false })
    expect(asked).toHaveLength(21)
    expect([asked[1], asked.at(-1)]).toEqual([`GET ${PATH} 400`, `GET ${PATH} 381`])
  })

  test('duplicates by the same author after the first comment are removed', async () => {
    const commentOf = (id: number, by: number, body: string) => ({ id, user: { id: by }, body })
    const ours = `Done.\n\n${MARKER}`
    const page = [
      commentOf(3, 1, ours),
      commentOf(4, 2, ours),
      commentOf(5, 1, `> ${MARKER}`),
      commentOf(7, 1, `${ours}\r\n`),
    ]
    const { host, asked } = await github([['old'], [], [commentOf(2, 9, 'x')], page, [commentOf(9, 1, ours)]])
    expect(await host.dropRepeats(REMOTE, 7, `\n${MARKER}`)).toEqual({ ok: true, value: 2 })
    const reads = [1, 5, 4, 3].map((number) => `GET ${PATH} ${number}`)
    const gone = [7, 9].map((id) => `DELETE /repos/ada/lamps/issues/comments/${id}`)
    expect(asked).toEqual([...reads, ...gone])
  })

  test.each([
    [404, { ok: true, value: 1 }],
    [403, { ok: false, refusal: { kind: 'forbidden' } }],
  ])('a duplicate that GitHub refuses to delete with %i', async (status, expected) => {
    const ours = { user: { id: 1 }, body: `Done.\n\n${MARKER}` }
    const { host } = await github(
      [
        [
          { ...ours, id: 1 },
          { ...ours, id: 2 },
        ],
      ],
      undefined,
      status,
    )
    expect(await host.dropRepeats(REMOTE, 7, `\n${MARKER}`)).toMatchObject(expected)
  })

  test('a comment is sent unchanged', async () => {
    const { host, asked } = await github([[]])
    expect(await host.comment(REMOTE, 7, `Done.\n\n${MARKER}`)).toEqual({ ok: true, value: undefined })
    expect(asked).toEqual([`POST ${PATH}`, JSON.stringify({ body: `Done.\n\n${MARKER}` })])
  })

  test.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'unknown'],
  ])('a reply %i becomes %s', async (status, kind) => {
    const { host } = await github([[]], status)
    expect(await host.comment(REMOTE, 7, 'x')).toMatchObject({ refusal: { kind } })
    expect(await host.hasComment(REMOTE, 7, 'x')).toMatchObject({ refusal: { kind } })
  })
})
