import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounting", "0011_notices"),
    ]

    operations = [
        migrations.CreateModel(
            name="DeviceReading",
            fields=[
                (
                    "device",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="reading",
                        serialize=False,
                        to="accounting.device",
                        verbose_name="device",
                    ),
                ),
                ("at", models.DateTimeField(help_text="Database time.", verbose_name="read")),
                (
                    "memory_used_mib",
                    models.PositiveBigIntegerField(
                        help_text="Highest since the report before.", null=True, verbose_name="memory used (MiB)"
                    ),
                ),
                (
                    "core_used_percent",
                    models.PositiveIntegerField(
                        help_text="Mean since the report before.", null=True, verbose_name="cores used (%)"
                    ),
                ),
                ("temperature_c", models.PositiveIntegerField(null=True, verbose_name="temperature (°C)")),
                (
                    "temperature_limit_c",
                    models.PositiveIntegerField(
                        help_text="There the device slows itself down.",
                        null=True,
                        verbose_name="temperature limit (°C)",
                    ),
                ),
                ("power_w", models.PositiveIntegerField(null=True, verbose_name="power (W)")),
                ("power_limit_w", models.PositiveIntegerField(null=True, verbose_name="power limit (W)")),
                (
                    "slowed",
                    models.CharField(
                        help_text="Why its clocks are held down, by commas; empty: they are not.",
                        max_length=200,
                        null=True,
                        verbose_name="slowed",
                    ),
                ),
                (
                    "xid",
                    models.PositiveIntegerField(
                        help_text="Number of the last XID that its agent heard.", null=True, verbose_name="XID"
                    ),
                ),
                ("xid_at", models.DateTimeField(null=True, verbose_name="XID heard")),
                (
                    "ailment",
                    models.CharField(
                        blank=True,
                        help_text="Why the agent calls it unhealthy.",
                        max_length=200,
                        verbose_name="ailment",
                    ),
                ),
            ],
            options={
                "verbose_name": "device reading",
                "verbose_name_plural": "device readings",
                "ordering": ("device",),
            },
        ),
        migrations.CreateModel(
            name="Examination",
            fields=[
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="accounting.cluster",
                        verbose_name="cluster",
                    ),
                ),
                ("asked_at", models.DateTimeField(help_text="Database time.", verbose_name="asked for")),
                ("asked_by", models.CharField(blank=True, max_length=150, verbose_name="asked by")),
                ("began_at", models.DateTimeField(null=True, verbose_name="begun")),
                ("ended_at", models.DateTimeField(null=True, verbose_name="ended")),
                (
                    "step",
                    models.CharField(
                        blank=True, help_text="What it looks at now.", max_length=100, verbose_name="step"
                    ),
                ),
                ("done", models.PositiveIntegerField(default=0, verbose_name="looks done")),
                ("total", models.PositiveIntegerField(default=0, verbose_name="looks")),
                (
                    "checks",
                    models.JSONField(
                        default=list,
                        help_text="Each with name, verdict, text and what mends it.",
                        verbose_name="checks",
                    ),
                ),
                ("checked_at", models.DateTimeField(null=True, verbose_name="checked")),
                (
                    "problem",
                    models.CharField(
                        blank=True,
                        help_text="Why the last one came to nothing.",
                        max_length=400,
                        verbose_name="problem",
                    ),
                ),
            ],
            options={
                "verbose_name": "examination",
                "verbose_name_plural": "examinations",
                "ordering": ("cluster",),
            },
        ),
    ]
