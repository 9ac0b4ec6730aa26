/** The preferences of a person for this browser. The host knows nothing of them. */
import type { ComponentChildren } from 'preact'
import { Section } from '../../elements/page-head.tsx'
import { Segments } from '../../elements/segments.tsx'
import { showError } from '../../elements/toasts.ts'
import { allowNotifications } from '../shell/installed-app.ts'
import { changePreferences, preferences } from '../state/preferences.ts'

const SWITCH = [
  ['on', 'On'],
  ['off', 'Off'],
] as const

export function BrowserSection() {
  const { theme, density, letterKeys, notifications } = preferences.value
  return (
    <Section id="browser" title="This browser">
      <div class="card">
        <Preference name="Theme" meaning="System follows the setting of your machine.">
          <Segments
            label="Theme"
            value={theme}
            choose={(chosen) => changePreferences({ theme: chosen })}
            options={[
              ['system', 'System'],
              ['light', 'Light'],
              ['dark', 'Dark'],
            ]}
          />
        </Preference>
        <Preference name="Density" meaning="How much stands on a page.">
          <Segments
            label="Density"
            value={density}
            choose={(chosen) => changePreferences({ density: chosen })}
            options={[
              ['compact', 'Compact'],
              ['comfortable', 'Comfortable'],
            ]}
          />
        </Preference>
        <Preference name="Letter keys" meaning="Single letters act outside of text fields; ? lists them.">
          <Segments
            label="Letter keys"
            value={letterKeys ? 'on' : 'off'}
            choose={(chosen) => changePreferences({ letterKeys: chosen === 'on' })}
            options={SWITCH}
          />
        </Preference>
        <Preference
          name="Notifications"
          meaning="What needs you is told while this page is in the background and open."
        >
          <Segments
            label="Notifications"
            value={notifications ? 'on' : 'off'}
            choose={(chosen) => void changeNotifications(chosen === 'on')}
            options={SWITCH}
          />
        </Preference>
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

interface PreferenceProps {
  readonly name: string
  readonly meaning: string
  readonly children: ComponentChildren
}

const Preference = ({ name, meaning, children }: PreferenceProps) => (
  <div class="setting">
    <div class="setting-about">
      <strong>{name}</strong>
      <p class="quiet">{meaning}</p>
    </div>
    <div class="setting-value">{children}</div>
  </div>
)
