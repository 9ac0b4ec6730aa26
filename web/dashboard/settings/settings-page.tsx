/** Every setting of the host, found by words, changed in its place, and the preferences of this browser. */
import { useEffect } from 'preact/hooks'
import { SETTING_LIST } from '../../../protocol/setting-list.ts'
import { Button } from '../../elements/button.tsx'
import { Segments, type SegmentsProps } from '../../elements/field.tsx'
import { PageHead, Section } from '../../elements/page-head.tsx'
import { Empty, Skeleton } from '../../elements/placeholder.tsx'
import { showError } from '../../elements/toasts.ts'
import { address, changeQuery } from '../../router.ts'
import { countOf } from '../../text/amounts.ts'
import { decodeOrKeep } from '../../text/decode.ts'
import { SearchFilter } from '../list-filters.tsx'
import { allowNotifications } from '../shell/installed-app.ts'
import { changePreferences, preferences } from '../state/preferences.ts'
import { config } from '../state/records.ts'
import { RepoSections } from './repo-sections.tsx'
import { filterSections, REPOS, repoSectionsOf, type SettingSection, sectionsOf } from './setting-model.ts'
import { SettingRow } from './setting-row.tsx'

export function SettingsPage() {
  const current = config.value
  const { query, fragment } = address.value
  const words = query.get('q') ?? ''
  const onlyChanged = query.get('show') === 'changed'
  const isLoaded = current !== undefined
  // A setting brings itself into view; sections have no part of their own that could.
  useEffect(() => {
    const wanted = decodeOrKeep(fragment)
    // A setting of a repository that is not there yet begins with the repository.
    const isLost = wanted.startsWith(`${REPOS}.`) && document.getElementById(wanted) === null
    if (isLost || !wanted.includes('.')) document.getElementById(isLost ? REPOS : wanted)?.scrollIntoView()
  }, [fragment, isLoaded])
  if (current === undefined)
    return (
      <>
        <PageHead title="Settings" />
        <Skeleton rows={8} />
      </>
    )
  const isFiltered = words !== '' || onlyChanged
  const sections = filterSections(sectionsOf(SETTING_LIST, current), { words, onlyChanged })
  const repos = filterSections(repoSectionsOf(SETTING_LIST, current), { words, onlyChanged })
  const count = [...sections, ...repos].reduce((sum, { settings }) => sum + settings.length, 0)
  return (
    <>
      <PageHead title="Settings" beside="A change applies at once, for everybody who uses this host." />
      <div class="filters" role="search">
        <SearchFilter
          label="Search the settings"
          group="Settings"
          placeholder="Search keys and meanings"
          value={words}
        />
        <Segments
          label="Which settings"
          value={onlyChanged ? 'changed' : ''}
          choose={(show) => changeQuery({ show })}
          options={[
            ['', 'All'],
            ['changed', 'Only changed'],
          ]}
        />
        {isFiltered && <span class="quiet">{countOf(count, 'setting')}</span>}
      </div>
      <div class="settings">
        <SectionLinks
          sections={sections}
          areReposShown={!isFiltered || repos.length > 0}
          isFiltered={isFiltered}
        />
        <div>
          {!isFiltered && <BrowserSection />}
          {isFiltered && count === 0 && <NothingFits />}
          {sections.map((section) => (
            <Section key={section.name} id={section.name} title={section.title}>
              <div class="card">
                {section.settings.map((placed) => (
                  <SettingRow key={placed.key} placed={placed} />
                ))}
              </div>
            </Section>
          ))}
          {(!isFiltered || repos.length > 0) && <RepoSections sections={repos} isFiltered={isFiltered} />}
        </div>
      </div>
    </>
  )
}

interface SectionLinksProps {
  readonly sections: readonly SettingSection[]
  readonly areReposShown: boolean
  readonly isFiltered: boolean
}

function SectionLinks({ sections, areReposShown, isFiltered }: SectionLinksProps) {
  const links = [
    ...(isFiltered ? [] : [{ name: 'browser', title: 'This browser' }]),
    ...sections,
    ...(areReposShown ? [{ name: REPOS, title: 'Repositories' }] : []),
  ]
  const { fragment, path, query } = address.value
  const asked = query.toString()
  return (
    <nav class="setting-sections" aria-label="Sections of the settings">
      <ul>
        {links.map(({ name, title }) => (
          <li key={name}>
            <a
              href={`${path}${asked === '' ? '' : `?${asked}`}#${name}`}
              aria-current={fragment === name ? 'true' : undefined}
            >
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}

const NothingFits = () => (
  <Empty
    title="No setting fits"
    button={<Button act={() => changeQuery({ q: undefined, show: undefined })}>Show all settings</Button>}
  />
)

// ---- this browser --------------------------------------------------------------------------------------------------

const SWITCH = [
  ['on', 'On'],
  ['off', 'Off'],
] as const

/** The preferences of a person for this browser. The host knows nothing of them. */
function BrowserSection() {
  const { theme, density, letterKeys, notifications } = preferences.value
  return (
    <Section id="browser" title="This browser">
      <div class="card">
        <Preference
          name="Theme"
          meaning="System follows the setting of your machine."
          value={theme}
          choose={(chosen) => changePreferences({ theme: chosen })}
          options={[
            ['system', 'System'],
            ['light', 'Light'],
            ['dark', 'Dark'],
          ]}
        />
        <Preference
          name="Density"
          meaning="How much stands on a page."
          value={density}
          choose={(chosen) => changePreferences({ density: chosen })}
          options={[
            ['compact', 'Compact'],
            ['comfortable', 'Comfortable'],
          ]}
        />
        <Preference
          name="Letter keys"
          meaning="Single letters act outside of text fields; ? lists them."
          value={letterKeys ? 'on' : 'off'}
          choose={(chosen) => changePreferences({ letterKeys: chosen === 'on' })}
          options={SWITCH}
        />
        <Preference
          name="Notifications"
          meaning="What needs you is told while this page is in the background and open."
          value={notifications ? 'on' : 'off'}
          choose={(chosen) => void changeNotifications(chosen === 'on')}
          options={SWITCH}
        />
      </div>
    </Section>
  )
}

async function changeNotifications(areOn: boolean): Promise<void> {
  if (areOn && !(await allowNotifications())) {
    showError(
      'This browser does not allow notifications of this page. Allow them in its settings for the site.',
    )
    return
  }
  changePreferences({ notifications: areOn })
}

interface PreferenceProps<T extends string> extends Omit<SegmentsProps<T>, 'label'> {
  readonly name: string
  readonly meaning: string
}

const Preference = <T extends string>({ name, meaning, ...choice }: PreferenceProps<T>) => (
  <div class="setting">
    <div class="setting-about">
      <strong>{name}</strong>
      <p class="quiet">{meaning}</p>
    </div>
    <div class="setting-value">
      <Segments label={name} {...choice} />
    </div>
  </div>
)
